#include "kv_cache/geometry.h"

#include <algorithm>

#include "ops/compressor/compressor.h"

namespace baleen {

std::int64_t CacheGeometry::ring_rows(std::int64_t block) const {
  const BlockCache& kept = this->block(block);
  const std::int64_t ratio = kept.ratio;
  const std::int64_t needed = (kept.overlaps ? 2 : 1) * ratio + max_draft_tokens;
  return (needed + ratio - 1) / ratio * ratio;
}

std::int64_t CacheGeometry::page_bytes() const {
  std::int64_t bytes = 0;
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    if (this->block(block).ratio == 0) continue;
    bytes += entry_format().page_stride_bytes(entries_per_page(block));
    if (this->block(block).has_index_keys) bytes += index_key.page_stride_bytes(entries_per_page(block));
  }
  return bytes;
}

std::int64_t CacheGeometry::overlap_bytes(std::int64_t block) const {
  if (!this->block(block).overlaps) return 0;
  return 2 * kOverlapRows * (latent.width() + index_key.dim) * std::int64_t{sizeof(float)};
}

std::int64_t CacheGeometry::window_page_bytes() const {
  std::int64_t bytes = num_blocks() * window_format().page_stride_bytes(kPageTokens);
  for (std::int64_t block = 0; block < num_blocks(); ++block) bytes += overlap_bytes(block);
  return bytes;
}

std::int64_t CacheGeometry::kept_tokens() const {
  const std::int64_t whole_pages = pages_for(window_tokens) * kPageTokens;
  return (shares_prefixes ? whole_pages : window_tokens) + max_draft_tokens;
}

std::int64_t CacheGeometry::state_bytes(std::int64_t block) const {
  if (!this->block(block).compresses()) return 0;
  const std::int64_t width = main_state_width(block) + (pools_keys(block) ? index_state_width(block) : 0);
  return 2 * ring_rows(block) * width * std::int64_t{sizeof(float)};
}

std::int64_t CacheGeometry::state_slot_bytes() const {
  std::int64_t bytes = 0;
  for (std::int64_t block = 0; block < num_blocks(); ++block) bytes += state_bytes(block);
  return bytes;
}

double CacheGeometry::bytes_per_token() const {
  double bytes = 0;
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    if (this->block(block).ratio == 0) continue;
    const std::int64_t entry =
        entry_row_bytes() + (this->block(block).has_index_keys ? index_key.row_bytes() : 0);
    bytes += static_cast<double>(entry) / this->block(block).ratio;
  }
  return bytes;
}

std::int64_t max_window_pages(const CacheGeometry& geometry, std::int64_t num_sequences,
                              std::int64_t max_step_tokens) {
  const std::int64_t beyond_first = geometry.kept_tokens() - 2;
  const std::int64_t idle_pages = beyond_first / kPageTokens + 2;
  // The step's tokens add most pages when every sequence takes just what makes it reach one page more.
  const std::int64_t for_one_more = kPageTokens - beyond_first % kPageTokens;
  const std::int64_t num_reaching = std::min(num_sequences, max_step_tokens / for_one_more);
  const std::int64_t left = num_reaching == num_sequences ? max_step_tokens - num_reaching * for_one_more : 0;
  return num_sequences * idle_pages + num_reaching + left / kPageTokens;
}

}  // namespace baleen
