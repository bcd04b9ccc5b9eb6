/// A place in a stream at which kernels that may start early do not.
#pragma once

#include "cuda/launch_stream.h"

namespace baleen {

/// Queues a kernel that does nothing and starts when everything before it on `stream`, events of other
/// streams included, has taken effect. What is behind may start early again: it has one predecessor, this
/// kernel.
void keep_full_order(const LaunchStream& stream);

}  // namespace baleen
