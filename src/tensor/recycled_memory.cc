#include "tensor/recycled_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace baleen {
namespace {

constexpr std::size_t kGrain = std::size_t{64} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kFitPart = 2;     ///< a block may be larger than needed by this part
constexpr std::size_t kSparePart = 16;  ///< and all of them than the most in use, for fewer new ones

/// Mapped by itself, a block leaves no gaps between others, and is the system's again when it is dropped.
void* new_block(std::size_t size) {
  // Huge pages lie at multiples of their size.
  const std::size_t spare = size >= kHugePage ? kHugePage : 0;
  void* const mapped =
      ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  if (spare == 0) return mapped;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t skipped = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* const block = begin + skipped;
  if (skipped > 0) ::munmap(begin, skipped);
  if (skipped < spare) ::munmap(block + size, spare - skipped);
  // A system without huge pages says no, which costs speed alone.
  ::madvise(block, size, MADV_HUGEPAGE);
  return block;
}

/// What is held, in use or waiting, exceeds the most that was in use at once by little.
class Blocks {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
    const std::scoped_lock lock(mutex_);
    const auto fit = waiting_.lower_bound(size);
    if (fit != waiting_.end() && fit->first <= size + size / kFitPart) {
      void* const block = fit->second;
      use(fit->first);
      waiting_.erase(fit);
      return block;
    }
    const std::size_t most = std::max(most_in_use_, in_use_ + size);
    while (held_ + size > most + most / kSparePart && !waiting_.empty()) drop_largest();
    void* const block = new_block(size);
    sizes_.emplace(block, size);
    held_ += size;
    use(size);
    return block;
  }

  void give_back(void* block) {
    const std::scoped_lock lock(mutex_);
    const std::size_t size = sizes_.at(block);
    in_use_ -= size;
    waiting_.emplace(size, block);
  }

 private:
  void use(std::size_t size) {
    in_use_ += size;
    most_in_use_ = std::max(most_in_use_, in_use_);
  }
  void drop_largest() {
    const auto last = std::prev(waiting_.end());
    held_ -= last->first;
    sizes_.erase(last->second);
    ::munmap(last->second, last->first);
    waiting_.erase(last);
  }

  std::mutex mutex_;
  std::size_t in_use_ = 0, most_in_use_ = 0, held_ = 0;  ///< bytes
  std::multimap<std::size_t, void*> waiting_;
  std::unordered_map<void*, std::size_t> sizes_;  ///< how large each block is
};

/// Never destroyed: arrays with static lifetime may give theirs back after it.
Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
}

}  // namespace

void* take_recycled(std::size_t bytes) { return blocks().take(bytes); }

void give_back_recycled(void* block) noexcept { blocks().give_back(block); }

}  // namespace baleen
