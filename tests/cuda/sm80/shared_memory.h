/// A kernel that takes as much shared memory as its launch says.
#pragma once

#include <cstdint>

#include "cuda/cuda_context.h"

namespace baleen::test {

/// Throws `Error` where a block gets less than `bytes`, of which 4096 are static.
void launch_with_shared_memory(std::int64_t bytes, const LaunchStream& stream);

}  // namespace baleen::test
