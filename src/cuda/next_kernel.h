/// When a kernel that runs lets the next one of its stream begin.
#pragma once

#include <cstdint>

namespace baleen {

enum class NextKernel : std::uint8_t {
  /// Whenever this one likes: what runs before it may still run then.
  kAtOnce,
  /// Behind this one's wait for the kernel before it, or when this one has ended: all that was queued before
  /// this one is done then.
  kBehindWait
};

}  // namespace baleen
