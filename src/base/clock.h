/// Time that never jumps.
#pragma once

#include <chrono>

namespace baleen {

/// Seconds since an arbitrary moment; differences are what it is for. Any thread.
[[nodiscard]] inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace baleen
