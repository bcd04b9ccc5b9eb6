#include "model/cache_geometry.h"

namespace baleen {

CacheGeometry cache_geometry(const RankConfig& rank, Precision precision, std::int64_t max_draft_tokens) {
  const ModelConfig& config = rank.model();
  CacheGeometry geometry;
  for (std::int64_t block = 0; block < rank.num_blocks(); ++block) {
    const LayerAttention shape = rank.attention(block);
    geometry.blocks.push_back(shape.cache());
    if (precision != Precision::kReleased) continue;
    geometry.window_row = shape.window_row;
    if (shape.entry_row) geometry.entry_row = shape.entry_row;
  }
  geometry.latent = {static_cast<int>(config.nope_dim()), static_cast<int>(config.qk_rope_head_dim),
                     precision};
  geometry.index_key = {static_cast<int>(config.index_head_dim), precision};
  geometry.window_tokens = config.sliding_window;
  geometry.max_draft_tokens = max_draft_tokens;
  return geometry;
}

}  // namespace baleen
