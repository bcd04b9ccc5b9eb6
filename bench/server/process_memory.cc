#include "bench/server/process_memory.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "base/error.h"

namespace baleen {

std::int64_t resident_bytes(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view kKey = "VmRSS:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::stoll(line.substr(kKey.size())) * 1024;
  }
  fail("process {}: no resident memory in /proc/{}/status; is the server still running?", pid, pid);
}

}  // namespace baleen
