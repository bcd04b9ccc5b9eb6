#include "hardware/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/number.h"

namespace baleen {
namespace {

constexpr std::int64_t kKibibyte = 1024;

/// The first number of the line that begins with `name`; empty: no file, no such line, or words ("max").
std::optional<std::int64_t> number_after(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size());
    if (begin == std::string::npos) return {};
    const std::size_t length = line.find_first_not_of("0123456789", begin);
    const auto number =
        read_whole(std::string_view(line).substr(begin, length - begin), {0, std::int64_t{1} << 60});
    return number.ok() ? std::optional(number.value()) : std::nullopt;
  }
  return {};
}

}  // namespace

std::int64_t available_memory_bytes() {
  const auto of_system = number_after("/proc/meminfo", "MemAvailable:");
  const std::int64_t available =
      of_system ? *of_system * kKibibyte : ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  const auto limit = number_after("/sys/fs/cgroup/memory.max", "");
  const auto used = number_after("/sys/fs/cgroup/memory.stat", "anon ");
  if (!limit || !used) return available;
  return std::min(available, std::max<std::int64_t>(0, *limit - *used));
}

std::int64_t total_memory_bytes() { return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE); }

std::int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * kKibibyte;
}

}  // namespace baleen
