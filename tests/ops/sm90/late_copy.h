/// A kernel that writes as late as a kernel can: it lets the next one begin at once, waits for those before,
/// and goes on waiting.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch_stream.h"

namespace baleen::test {

/// Queues to[i] = from[i], read and written `delay_us` microseconds behind the end of the kernels before.
void copy_late(std::span<const std::uint32_t> from, std::uint32_t* to, std::int64_t delay_us,
               const LaunchStream& stream);

}  // namespace baleen::test
