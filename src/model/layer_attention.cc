#include "model/layer_attention.h"

#include <fmt/format.h>

#include "model/config.h"

namespace baleen {
namespace {

/// The ratios of the family.
constexpr std::int64_t kFineRatio = 4, kCoarseRatio = 128;
/// What kernels and rings are made for.
constexpr std::int64_t kWindowTokens = 128, kIndexDim = 128;

}  // namespace

std::string_view layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::kSlidingWindow:
      return "sliding window";
    case LayerKind::kCsa:
      return "CSA";
    case LayerKind::kHca:
      return "HCA";
  }
  return "?";
}

LayerAttention attention_of(const ModelConfig& config, std::int64_t block) {
  LayerAttention shape{.window_tokens = config.sliding_window,
                       .ratio = config.compress_ratio(block),
                       .num_heads = config.num_attention_heads,
                       .head_dim = config.head_dim,
                       .rope_dim = config.qk_rope_head_dim};
  // So many entries that a query cannot see them all are selected from.
  shape.indexed = shape.ratio > 0 && shape.ratio < kCoarseRatio;
  shape.overlaps = shape.ratio == kFineRatio;
  if (shape.has_entries()) shape.rope = RopeKind::kScaled;
  if (shape.ratio == 1) shape.layout = LatentLayout::kV32;
  if (shape.indexed) {
    shape.top_k = config.index_topk;
    shape.index_heads = config.index_n_heads;
    shape.index_dim = config.index_head_dim;
  }
  return shape;
}

std::string why_not_runnable(const LayerAttention& shape) {
  if (shape.ratio == 1) {
    return "attention over every position's own row (ratio 1, as DeepSeek-V3.2 has): the operations select "
           "from compressed "
           "entries; expected 0, 4 or 128";
  }
  if (shape.ratio != 0 && shape.ratio != kFineRatio && shape.ratio != kCoarseRatio) {
    return fmt::format("expected 0, 4 or 128, found {}", shape.ratio);
  }
  if (shape.window_tokens != kWindowTokens) {
    return fmt::format("a window of {} positions; the operations have one of {}", shape.window_tokens,
                       kWindowTokens);
  }
  if (shape.indexed && shape.index_dim != kIndexDim) {
    return fmt::format("indexer keys of {} values; the operations have {}", shape.index_dim, kIndexDim);
  }
  return "";
}

}  // namespace baleen
