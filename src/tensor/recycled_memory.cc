#include "tensor/recycled_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace baleen {
namespace {

constexpr std::size_t kGrain = std::size_t{64} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

void* new_block(std::size_t size) {
  const bool huge = size >= kHugePage;
  void* const block = std::aligned_alloc(huge ? kHugePage : 64, size);
  if (block == nullptr) throw std::bad_alloc();
  // A system without huge pages says no, which costs speed alone.
  if (huge) ::madvise(block, size, MADV_HUGEPAGE);
  return block;
}

class Blocks {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kGrain - 1) / kGrain * kGrain;
    const std::scoped_lock lock(mutex_);
    const auto fit = waiting_.lower_bound(size);
    if (fit != waiting_.end() && fit->first < 2 * size) {
      void* const block = fit->second;
      waiting_.erase(fit);
      return block;
    }
    if (fit != waiting_.begin()) {
      const auto smaller = std::prev(fit);
      sizes_.erase(smaller->second);
      std::free(smaller->second);
      waiting_.erase(smaller);
    }
    void* const block = new_block(size);
    sizes_.emplace(block, size);
    return block;
  }

  void give_back(void* block) {
    const std::scoped_lock lock(mutex_);
    waiting_.emplace(sizes_.at(block), block);
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, void*> waiting_;
  std::unordered_map<void*, std::size_t> sizes_;  ///< of all blocks
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
