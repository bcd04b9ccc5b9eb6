#include "kv_cache/geometry.h"

namespace baleen {

std::int64_t CacheGeometry::ring_rows(int ratio) const {
  const std::int64_t needed = (ratio == 4 ? 8 : 128) + max_draft_tokens;
  return (needed + ratio - 1) / ratio * ratio;
}

std::int64_t CacheGeometry::page_bytes() const {
  std::int64_t bytes = 0;
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    if (ratio(block) == 0) continue;
    bytes += latent.page_stride_bytes(entries_per_page(block));
    if (ratio(block) == 4) bytes += index_key.page_stride_bytes(entries_per_page(block));
  }
  return bytes;
}

std::int64_t CacheGeometry::window_page_bytes() const { return num_blocks() * latent.page_stride_bytes(kPageTokens); }

std::int64_t CacheGeometry::state_slot_bytes() const {
  std::int64_t floats = 0;
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    if (ratio(block) == 0) continue;
    floats += 2 * ring_rows(ratio(block)) * main_state_width(block);
    if (ratio(block) == 4) floats += 2 * ring_rows(4) * index_state_width();
  }
  return floats * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t window_pages_per_sequence(const CacheGeometry& geometry, std::int64_t max_step_tokens) {
  return pages_for(max_step_tokens + geometry.window_tokens + 1) + 1;
}

}  // namespace baleen
