/// The cache's memory and who uses which part of it: three pools (pages, window pages, state slots) over one
/// buffer.
#pragma once

#include <cstdint>

#include "kv_cache/geometry.h"
#include "kv_cache/page_allocator.h"
#include "ops/compressor/compressor.h"
#include "tensor/buffer.h"

namespace baleen {

struct CacheCapacity {
  std::int64_t num_pages = 0;         ///< of 256 positions
  std::int64_t num_window_pages = 0;  ///< of 256 positions
  std::int64_t num_state_slots = 0;   ///< sequences at a time

  [[nodiscard]] std::int64_t total_bytes(const CacheGeometry& geometry) const {
    return num_pages * geometry.page_bytes() + num_window_pages * geometry.window_page_bytes() +
           num_state_slots * geometry.state_slot_bytes();
  }
};

/// Memory is reserved at once and becomes resident as pages are first written. Recycled pages keep old bytes:
/// what may be read is decided by positions, never by content. Not thread-safe.
class KvCache {
 public:
  /// Throws `Error` when the memory cannot be had.
  KvCache(CacheGeometry geometry, CacheCapacity capacity);

  [[nodiscard]] const CacheGeometry& geometry() const { return geometry_; }
  [[nodiscard]] const CacheCapacity& capacity() const { return capacity_; }

  /// Raw KV rows of a block, 256 a page.
  [[nodiscard]] LatentPool window(std::int64_t block) const;
  /// Compressed entries of a block; base null for ratio 0.
  [[nodiscard]] LatentPool compressed(std::int64_t block) const;
  /// Indexer keys of a block; base null unless ratio 4.
  [[nodiscard]] IndexKeyPool index_keys(std::int64_t block) const;
  /// Rings of a block's main compressor; of the indexer's (ratio 4 only).
  [[nodiscard]] CompressorState main_state(std::int64_t block) const;
  [[nodiscard]] CompressorState index_state(std::int64_t block) const;

  PageAllocator& pages() { return pages_; }
  PageAllocator& window_pages() { return window_pages_; }
  PageAllocator& state_slots() { return state_slots_; }

 private:
  /// Where a block's parts begin.
  struct BlockOffsets {
    std::int64_t window = 0;
    std::int64_t compressed = 0;
    std::int64_t index_keys = 0;
    std::int64_t main_state = 0;   ///< within a slot
    std::int64_t index_state = 0;  ///< within a slot
  };

  [[nodiscard]] const BlockOffsets& at(std::int64_t block) const {
    return offsets_[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] CompressorState state(std::int64_t offset, int ratio, std::int64_t width) const;

  CacheGeometry geometry_;
  CacheCapacity capacity_;
  std::vector<BlockOffsets> offsets_;
  std::int64_t states_begin_ = 0;
  Buffer buffer_;
  PageAllocator pages_;
  PageAllocator window_pages_;
  PageAllocator state_slots_;
};

}  // namespace baleen
