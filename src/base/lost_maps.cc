#include "base/lost_maps.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"

namespace baleen {
namespace {

/// More shards than any released checkpoint has.
constexpr std::size_t kMaxMaps = 4096;
constexpr std::size_t kMaxPathBytes = 4096;

/// Free while `begin` is 0. The handler reads slots at any moment: `begin` is written last and cleared first.
struct Slot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::size_t> size = 0;
  std::atomic<const char*> path = nullptr;
};

// A signal handler has nothing but globals.
std::array<Slot, kMaxMaps> slots;
std::atomic<bool> any_lost = false;
std::atomic<bool> lost_path_is_written = false;
std::array<char, kMaxPathBytes> lost_path;  // of the first

/// Calls nothing but mmap and sigaction, which are plain system calls.
void on_bus_error(int, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const std::size_t size = slot.size.load(std::memory_order_relaxed);
    if (begin == 0 || address - begin >= size) continue;
    // All of it: what is left of a file that shrank is no more use, and one call serves every page.
    if (::mmap(reinterpret_cast<void*>(begin), size, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0) == MAP_FAILED)
      break;
    if (!any_lost.exchange(true)) {
      const char* path = slot.path.load(std::memory_order_relaxed);
      for (std::size_t i = 0; i + 1 < kMaxPathBytes && path[i] != '\0'; ++i) lost_path[i] = path[i];
      lost_path_is_written.store(true, std::memory_order_release);
    }
    errno = saved_errno;
    return;
  }
  struct sigaction otherwise {};
  otherwise.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &otherwise, nullptr);  // the access is tried again, and ends the process
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

std::mutex& slots_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void guard_map(const void* data, std::size_t size, const char* path) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  auto copy = std::make_unique<char[]>(std::strlen(path) + 1);
  std::strcpy(copy.get(), path);
  const std::lock_guard lock(slots_mutex());
  const auto free = std::ranges::find_if(slots, [](const Slot& slot) { return slot.begin == 0; });
  if (free == slots.end()) return;
  free->size = size;
  free->path = copy.release();
  free->begin.store(reinterpret_cast<std::uintptr_t>(data), std::memory_order_release);
}

void forget_map(const void* data) {
  const std::lock_guard lock(slots_mutex());
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const auto slot = std::ranges::find_if(slots, [&](const Slot& each) { return each.begin == begin; });
  if (slot == slots.end()) return;
  slot->begin = 0;
  delete[] slot->path.exchange(nullptr);
}

void check_maps() {
  if (!any_lost.load(std::memory_order_acquire)) [[likely]]
    return;
  // Another thread may be in the handler still.
  while (!lost_path_is_written.load(std::memory_order_acquire)) continue;
  throw LostDevice(fmt::format(
      "{}: cannot be read any more: the file was cut short or its disk fails; what was computed from it "
      "since then is not used",
      lost_path.data()));
}

}  // namespace baleen
