/// The cache's memory and who uses which part of it: three pools (pages, window pages, state slots) over one
/// buffer.
#pragma once

#include <cstdint>

#include <span>
#include <string_view>
#include <vector>

#include "kv_cache/geometry.h"
#include "kv_cache/page_allocator.h"
#include "ops/compressor/compressor.h"
#include "tensor/buffer.h"

namespace baleen {

struct CacheCapacity {
  std::int64_t num_pages = 0;         ///< pages of 256 positions
  std::int64_t num_window_pages = 0;  ///< pages of 256 positions, for window rows
  std::int64_t num_state_slots = 0;   ///< sequences at a time

  [[nodiscard]] std::int64_t total_bytes(const CacheGeometry& geometry) const {
    return num_pages * geometry.page_bytes() + num_window_pages * geometry.window_page_bytes() +
           num_state_slots * geometry.state_slot_bytes();
  }
};

/// Consecutive bytes of a page or a state slot, as they are read and written whole, by the pool that they
/// are of.
struct PoolRange {
  std::string_view pool;
  std::int64_t offset = 0;
  std::int64_t num_bytes = 0;
};

/// Memory is reserved at once and becomes resident as pages are first written. Recycled pages keep old bytes:
/// what may be read is decided by positions, never by content. Not thread-safe.
class KvCache {
 public:
  /// Throws `Error` when `memory`, which must outlive this, has not as much.
  KvCache(CacheGeometry geometry, CacheCapacity capacity, Memory& memory = host_memory());

  [[nodiscard]] const CacheGeometry& geometry() const { return geometry_; }
  [[nodiscard]] const CacheCapacity& capacity() const { return capacity_; }

  /// Raw KV rows of a block, 256 a page.
  [[nodiscard]] LatentPool window(std::int64_t block) const;
  /// Compressed entries of a block; base null where it has none.
  [[nodiscard]] LatentPool compressed(std::int64_t block) const;
  /// Indexer keys of a block; base null where it has none.
  [[nodiscard]] IndexKeyPool index_keys(std::int64_t block) const;
  /// Rings of a block's main compressor; of the indexer's.
  [[nodiscard]] CompressorState main_state(std::int64_t block) const;
  [[nodiscard]] CompressorState index_state(std::int64_t block) const;
  /// Rows that the window pages of a block whose entries overlap carry; base null for others.
  [[nodiscard]] CompressorOverlap main_overlap(std::int64_t block) const;
  [[nodiscard]] CompressorOverlap index_overlap(std::int64_t block) const;

  /// Fills the rings of a slot for a sequence that goes on after `window_page`, whose positions end before
  /// `end`.
  void restore_rings(PageId window_page, std::int32_t state_slot, std::int64_t end) const;

  /// A page as bytes, block after block: geometry().page_bytes() and window_page_bytes() of them.
  void read_page(PageId page, std::span<std::byte> to) const;
  void write_page(PageId page, std::span<const std::byte> from) const;
  void read_window_page(PageId page, std::span<std::byte> to) const;
  void write_window_page(PageId page, std::span<const std::byte> from) const;
  /// All rings of a state slot: geometry().state_slot_bytes().
  void read_state_slot(std::int32_t slot, std::span<std::byte> to) const;
  void write_state_slot(std::int32_t slot, std::span<const std::byte> from) const;
  /// What lies where in those bytes, ascending and without gaps.
  [[nodiscard]] std::span<const PoolRange> page_ranges() const { return page_ranges_; }
  [[nodiscard]] std::span<const PoolRange> window_page_ranges() const { return window_page_ranges_; }
  [[nodiscard]] std::span<const PoolRange> state_slot_ranges() const { return state_slot_ranges_; }
  /// Overwrites row `row` of a page of one pool of this cache with `values`, as the operations would store
  /// them.
  void write_row(const LatentPool& pool, PageId page, int row, std::span<const float> values) const;
  /// Where the pools lie.
  [[nodiscard]] Memory& memory() const { return buffer_.memory(); }

  PageAllocator& pages() { return pages_; }
  PageAllocator& window_pages() { return window_pages_; }
  PageAllocator& state_slots() { return state_slots_; }

 private:
  /// Where a block's parts begin.
  struct BlockOffsets {
    std::int64_t window = 0;
    std::int64_t compressed = 0;
    std::int64_t index_keys = 0;
    std::int64_t main_overlap = 0;
    std::int64_t index_overlap = 0;
    std::int64_t main_state = 0;   ///< within a slot
    std::int64_t index_state = 0;  ///< within a slot
  };

  [[nodiscard]] const BlockOffsets& at(std::int64_t block) const {
    return offsets_[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] CompressorState state(std::int64_t offset, std::int64_t block, std::int64_t width) const;
  [[nodiscard]] CompressorOverlap overlap(std::int64_t offset, std::int64_t width) const;

  /// One block's part of every page of a pool: page p at offset + p * stride_bytes.
  struct PagePart {
    std::int64_t offset = 0;
    std::int64_t stride_bytes = 0;
  };
  /// The place of a part in the buffer for the next `num_pages` pages.
  static std::int64_t place(std::vector<PagePart>& parts, std::int64_t& end, std::int64_t num_pages,
                            std::int64_t stride_bytes);
  void read(const std::vector<PagePart>& parts, PageId page, std::span<std::byte> to) const;
  void write(const std::vector<PagePart>& parts, PageId page, std::span<const std::byte> from) const;

  CacheGeometry geometry_;
  CacheCapacity capacity_;
  std::vector<BlockOffsets> offsets_;
  std::vector<PagePart> page_parts_;
  std::vector<PagePart> window_page_parts_;
  std::vector<PoolRange> page_ranges_, window_page_ranges_, state_slot_ranges_;
  std::int64_t states_begin_ = 0;
  Buffer buffer_;
  PageAllocator pages_;
  PageAllocator window_pages_;
  PageAllocator state_slots_;
};

}  // namespace baleen
