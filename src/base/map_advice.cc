#include "base/map_advice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace baleen {
namespace {

/// Of the pages that hold `mapped`.
void advise(std::span<const std::byte> mapped, int advice) {
  if (mapped.empty()) return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(mapped.data() + mapped.size());
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, advice));
}

}  // namespace

void expect_random_reads(std::span<const std::byte> mapped) { advise(mapped, MADV_RANDOM); }

void begin_reading(std::span<const std::byte> mapped) { advise(mapped, MADV_WILLNEED); }

void end_reading(std::span<const std::byte> mapped) { advise(mapped, MADV_DONTNEED); }

}  // namespace baleen
