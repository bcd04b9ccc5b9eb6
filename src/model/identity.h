/// Which weights these are, as a name to tell caches of different models apart.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace baleen {

/// 32 hexadecimal digits: a hash of config.json (weights in memory have none), of every tensor's name, type
/// and shape, and of bytes from a few hundred tensors all over the files. So it costs a few hundred reads,
/// whatever the size of the checkpoint, and tells apart what training, conversion or another seed made
/// different.
[[nodiscard]] std::string checkpoint_identity(const Checkpoint& checkpoint);

}  // namespace baleen
