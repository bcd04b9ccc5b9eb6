#include "base/memory_reserve.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <new>

namespace baleen {
namespace {

constexpr std::size_t kReserveBytes = 8 << 20;

std::atomic<void*> reserve = nullptr;

void give_back_reserve_or_fail() {
  void* const kept = std::uncaught_exceptions() > 0 ? reserve.exchange(nullptr) : nullptr;
  if (kept == nullptr) throw std::bad_alloc();
  ::munmap(kept, kReserveBytes);
}

}  // namespace

void fill_memory_reserve() noexcept {
  std::set_new_handler(give_back_reserve_or_fail);
  if (reserve != nullptr) return;
  void* const kept = ::mmap(nullptr, kReserveBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kept == MAP_FAILED) return;
  void* expected = nullptr;
  if (!reserve.compare_exchange_strong(expected, kept)) ::munmap(kept, kReserveBytes);
}

}  // namespace baleen
