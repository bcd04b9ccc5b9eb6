#include "kv_cache/kv_cache.h"

#include <utility>

#include "base/check.h"

namespace baleen {

KvCache::KvCache(CacheGeometry geometry, CacheCapacity capacity)
    : geometry_(std::move(geometry)),
      capacity_(capacity),
      buffer_(capacity.total_bytes(geometry_)),
      pages_(capacity.num_pages),
      window_pages_(capacity.num_window_pages),
      state_slots_(capacity.num_state_slots) {
  // One block's pages lie together, pool after pool; states last, one slot's blocks together.
  std::int64_t offset = 0;
  std::int64_t in_slot = 0;
  for (std::int64_t block = 0; block < geometry_.num_blocks(); ++block) {
    const int ratio = geometry_.ratio(block);
    const int entries = geometry_.entries_per_page(block);
    BlockOffsets& begin = offsets_.emplace_back();
    begin.window = offset;
    offset += capacity_.num_window_pages * geometry_.latent.page_stride_bytes(kPageTokens);
    if (ratio == 0) continue;
    begin.compressed = offset;
    offset += capacity_.num_pages * geometry_.latent.page_stride_bytes(entries);
    begin.main_state = in_slot;
    in_slot +=
        2 * geometry_.ring_rows(ratio) * geometry_.main_state_width(block) * std::int64_t{sizeof(float)};
    if (ratio != 4) continue;
    begin.index_keys = offset;
    offset += capacity_.num_pages * geometry_.index_key.page_stride_bytes(entries);
    begin.index_state = in_slot;
    in_slot += 2 * geometry_.ring_rows(ratio) * geometry_.index_state_width() * std::int64_t{sizeof(float)};
  }
  states_begin_ = offset;
  BALEEN_CHECK_EQ(in_slot, geometry_.state_slot_bytes());
  BALEEN_CHECK_EQ(offset + capacity_.num_state_slots * in_slot, capacity_.total_bytes(geometry_));
}

LatentPool KvCache::window(std::int64_t block) const {
  return {buffer_.data() + at(block).window, geometry_.latent.page_stride_bytes(kPageTokens),
          int{kPageTokens}, geometry_.latent};
}

LatentPool KvCache::compressed(std::int64_t block) const {
  if (geometry_.ratio(block) == 0) return {};
  const int entries = geometry_.entries_per_page(block);
  return {buffer_.data() + at(block).compressed, geometry_.latent.page_stride_bytes(entries), entries,
          geometry_.latent};
}

IndexKeyPool KvCache::index_keys(std::int64_t block) const {
  if (geometry_.ratio(block) != 4) return {};
  const int entries = geometry_.entries_per_page(block);
  return {buffer_.data() + at(block).index_keys, geometry_.index_key.page_stride_bytes(entries), entries,
          geometry_.index_key};
}

CompressorState KvCache::state(std::int64_t offset, int ratio, std::int64_t width) const {
  return {reinterpret_cast<float*>(buffer_.data() + states_begin_ + offset),
          geometry_.state_slot_bytes() / std::int64_t{sizeof(float)}, geometry_.ring_rows(ratio), width};
}

CompressorState KvCache::main_state(std::int64_t block) const {
  BALEEN_CHECK(geometry_.ratio(block) != 0);
  return state(at(block).main_state, geometry_.ratio(block), geometry_.main_state_width(block));
}

CompressorState KvCache::index_state(std::int64_t block) const {
  BALEEN_CHECK(geometry_.ratio(block) == 4);
  return state(at(block).index_state, 4, geometry_.index_state_width());
}

}  // namespace baleen
