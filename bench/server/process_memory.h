/// Resident memory of another process of this machine.
#pragma once

#include <cstdint>

namespace baleen {

/// From /proc/PID/status. Throws `Error` when there is no such process.
std::int64_t resident_bytes(int pid);

}  // namespace baleen
