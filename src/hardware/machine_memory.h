/// Memory of this machine and of this process, as the system counts it.
#pragma once

#include <cstdint>

namespace baleen {

/// What this process could have besides what it has: of the system's memory, and under the limit of its
/// control group (version 2), where it has one. Pages of files do not count as taken.
[[nodiscard]] std::int64_t available_memory_bytes();

/// Of this machine.
[[nodiscard]] std::int64_t total_memory_bytes();

/// The most that this process has had resident so far, pages of mapped files included.
[[nodiscard]] std::int64_t peak_resident_bytes();

}  // namespace baleen
