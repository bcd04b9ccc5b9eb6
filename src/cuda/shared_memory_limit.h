/// Shared memory that kernels may have on a GPU: as much as the traits of its device say, which may be those
/// of a card with less (device/imposed_card.h).
#pragma once

#include <cstdint>

namespace baleen {

/// From now on a block gets at most so many bytes on GPU `gpu`, static ones included, and a launch that wants
/// more fails. The process has one limit for a GPU, as CUDA has one for a kernel there: set it before the
/// first launch.
void limit_shared_memory(int gpu, std::int64_t bytes);

/// 0: as much as the GPU has.
[[nodiscard]] std::int64_t shared_memory_limit(int gpu);

}  // namespace baleen
