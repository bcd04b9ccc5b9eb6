#include "kv_cache/kv_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace baleen {
namespace {

std::int64_t overlap_page_bytes(std::int64_t width) {
  return 2 * kOverlapRows * width * std::int64_t{sizeof(float)};
}

void append(std::vector<PoolRange>& ranges, std::string_view pool, std::int64_t num_bytes) {
  const std::int64_t offset = ranges.empty() ? 0 : ranges.back().offset + ranges.back().num_bytes;
  ranges.push_back({pool, offset, num_bytes});
}

/// Copies the last rows of a window page to where a ring has their positions.
void restore_ring(Memory& memory, const CompressorOverlap& overlap, const CompressorState& state,
                  PageId window_page, std::int32_t slot, std::int64_t end) {
  const auto copy_row = [&](float* to, const float* from) {
    memory.copy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                overlap.width * std::int64_t{sizeof(float)});
  };
  for (std::int64_t position = end - kOverlapRows; position < end; ++position) {
    copy_row(state.kv_row(slot, position), overlap.kv_row(window_page, position));
    copy_row(state.gate_row(slot, position), overlap.gate_row(window_page, position));
  }
}

}  // namespace

KvCache::KvCache(CacheGeometry geometry, CacheCapacity capacity, Memory& memory)
    : geometry_(std::move(geometry)),
      capacity_(capacity),
      buffer_(capacity.total_bytes(geometry_), memory),
      pages_(capacity.num_pages),
      window_pages_(capacity.num_window_pages),
      state_slots_(capacity.num_state_slots) {
  // One block's pages lie together, pool after pool; states last, one slot's blocks together.
  std::int64_t offset = 0;
  std::int64_t in_slot = 0;
  const auto pages = [&](std::string_view pool, std::int64_t stride_bytes) {
    append(page_ranges_, pool, stride_bytes);
    return place(page_parts_, offset, capacity_.num_pages, stride_bytes);
  };
  const auto window_pages = [&](std::string_view pool, std::int64_t stride_bytes) {
    append(window_page_ranges_, pool, stride_bytes);
    return place(window_page_parts_, offset, capacity_.num_window_pages, stride_bytes);
  };
  const auto state = [&](std::string_view pool, std::int64_t block, std::int64_t width) {
    const std::int64_t num_bytes = 2 * geometry_.ring_rows(block) * width * std::int64_t{sizeof(float)};
    append(state_slot_ranges_, pool, num_bytes);
    return std::exchange(in_slot, in_slot + num_bytes);
  };
  for (std::int64_t block = 0; block < geometry_.num_blocks(); ++block) {
    const BlockCache& kept = geometry_.block(block);
    const int entries = geometry_.entries_per_page(block);
    BlockOffsets& begin = offsets_.emplace_back();
    begin.window = window_pages("window rows", geometry_.window_format().page_stride_bytes(kPageTokens));
    if (kept.ratio == 0) continue;
    begin.compressed = pages("compressed entries", geometry_.entry_format().page_stride_bytes(entries));
    if (kept.compresses()) {
      begin.main_state = state("main compressor rings", block, geometry_.main_state_width(block));
    }
    if (kept.has_index_keys)
      begin.index_keys = pages("indexer keys", geometry_.index_key.page_stride_bytes(entries));
    if (kept.overlaps) {
      begin.main_overlap =
          window_pages("compressor overlap rows", overlap_page_bytes(geometry_.latent.width()));
      begin.index_overlap = window_pages("indexer overlap rows", overlap_page_bytes(geometry_.index_key.dim));
    }
    if (!geometry_.pools_keys(block)) continue;
    begin.index_state = state("indexer compressor rings", block, geometry_.index_state_width(block));
  }
  states_begin_ = offset;
  BALEEN_CHECK_EQ(in_slot, geometry_.state_slot_bytes());
  BALEEN_CHECK_EQ(offset + capacity_.num_state_slots * in_slot, capacity_.total_bytes(geometry_));
}

LatentPool KvCache::window(std::int64_t block) const {
  const LatentFormat format = geometry_.window_format();
  return {buffer_.data() + at(block).window, format.page_stride_bytes(kPageTokens), int{kPageTokens}, format,
          capacity_.num_window_pages};
}

LatentPool KvCache::compressed(std::int64_t block) const {
  if (geometry_.block(block).ratio == 0) return {};
  const int entries = geometry_.entries_per_page(block);
  const LatentFormat format = geometry_.entry_format();
  return {buffer_.data() + at(block).compressed, format.page_stride_bytes(entries), entries, format,
          capacity_.num_pages};
}

IndexKeyPool KvCache::index_keys(std::int64_t block) const {
  if (!geometry_.block(block).has_index_keys) return {};
  const int entries = geometry_.entries_per_page(block);
  return {buffer_.data() + at(block).index_keys, geometry_.index_key.page_stride_bytes(entries), entries,
          geometry_.index_key, capacity_.num_pages};
}

CompressorState KvCache::state(std::int64_t offset, std::int64_t block, std::int64_t width) const {
  return {reinterpret_cast<float*>(buffer_.data() + states_begin_ + offset),
          geometry_.state_slot_bytes() / std::int64_t{sizeof(float)}, geometry_.ring_rows(block), width,
          capacity_.num_state_slots};
}

CompressorState KvCache::main_state(std::int64_t block) const {
  BALEEN_CHECK(geometry_.block(block).compresses());
  return state(at(block).main_state, block, geometry_.main_state_width(block));
}

CompressorState KvCache::index_state(std::int64_t block) const {
  BALEEN_CHECK(geometry_.pools_keys(block));
  return state(at(block).index_state, block, geometry_.index_state_width(block));
}

CompressorOverlap KvCache::overlap(std::int64_t offset, std::int64_t width) const {
  return {reinterpret_cast<float*>(buffer_.data() + offset),
          overlap_page_bytes(width) / std::int64_t{sizeof(float)}, width, capacity_.num_window_pages};
}

CompressorOverlap KvCache::main_overlap(std::int64_t block) const {
  if (!geometry_.block(block).overlaps) return {};
  return overlap(at(block).main_overlap, geometry_.latent.width());
}

CompressorOverlap KvCache::index_overlap(std::int64_t block) const {
  if (!geometry_.block(block).overlaps) return {};
  return overlap(at(block).index_overlap, geometry_.index_key.dim);
}

void KvCache::restore_rings(PageId window_page, std::int32_t state_slot, std::int64_t end) const {
  BALEEN_CHECK_EQ(end % kPageTokens, 0);
  for (std::int64_t block = 0; block < geometry_.num_blocks(); ++block) {
    if (!geometry_.block(block).overlaps) continue;
    restore_ring(memory(), main_overlap(block), main_state(block), window_page, state_slot, end);
    restore_ring(memory(), index_overlap(block), index_state(block), window_page, state_slot, end);
  }
}

std::int64_t KvCache::place(std::vector<PagePart>& parts, std::int64_t& end, std::int64_t num_pages,
                            std::int64_t stride_bytes) {
  parts.push_back({end, stride_bytes});
  end += num_pages * stride_bytes;
  return parts.back().offset;
}

void KvCache::read(const std::vector<PagePart>& parts, PageId page, std::span<std::byte> to) const {
  std::size_t at = 0;
  for (const PagePart& part : parts) {
    const auto size = static_cast<std::size_t>(part.stride_bytes);
    const std::byte* from =
        buffer_.data() + part.offset + static_cast<std::int64_t>(page) * part.stride_bytes;
    memory().download(to.subspan(at, size), from);
    at += size;
  }
  BALEEN_CHECK_EQ(at, to.size());
}

void KvCache::write(const std::vector<PagePart>& parts, PageId page, std::span<const std::byte> from) const {
  std::size_t at = 0;
  for (const PagePart& part : parts) {
    const auto size = static_cast<std::size_t>(part.stride_bytes);
    memory().upload(buffer_.data() + part.offset + static_cast<std::int64_t>(page) * part.stride_bytes,
                    from.subspan(at, size));
    at += size;
  }
  BALEEN_CHECK_EQ(at, from.size());
}

void KvCache::write_row(const LatentPool& pool, PageId page, int row, std::span<const float> values) const {
  // Values and scales of a row lie apart in a page. Rows are encoded in a page of our own and copied piece by
  // piece.
  const LatentFormat& format = pool.format;
  std::vector<std::byte> own(static_cast<std::size_t>(pool.page_stride_bytes));
  encode_latent_row(format, own.data(), pool.rows_per_page, row, values);
  const auto copy_piece = [&](std::int64_t offset, std::int64_t size) {
    memory().upload(pool.page(static_cast<std::int64_t>(page)) + offset,
                    std::span(own).subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size)));
  };
  copy_piece(row * format.data_bytes(), format.data_bytes());
  if (format.scale_bytes() > 0) {
    copy_piece(pool.rows_per_page * format.data_bytes() + row * format.scale_bytes(), format.scale_bytes());
  }
}

void KvCache::read_page(PageId page, std::span<std::byte> to) const { read(page_parts_, page, to); }
void KvCache::write_page(PageId page, std::span<const std::byte> from) const {
  write(page_parts_, page, from);
}
void KvCache::read_window_page(PageId page, std::span<std::byte> to) const {
  read(window_page_parts_, page, to);
}
void KvCache::write_window_page(PageId page, std::span<const std::byte> from) const {
  write(window_page_parts_, page, from);
}

void KvCache::read_state_slot(std::int32_t slot, std::span<std::byte> to) const {
  BALEEN_CHECK_EQ(std::ssize(to), geometry_.state_slot_bytes());
  memory().download(to, buffer_.data() + states_begin_ + slot * geometry_.state_slot_bytes());
}
void KvCache::write_state_slot(std::int32_t slot, std::span<const std::byte> from) const {
  BALEEN_CHECK_EQ(std::ssize(from), geometry_.state_slot_bytes());
  memory().upload(buffer_.data() + states_begin_ + slot * geometry_.state_slot_bytes(), from);
}

}  // namespace baleen
