#include "model/layer_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/config.h"
#include "model/model_family.h"

namespace baleen {
namespace {

/// The ratios of the family.
constexpr std::int64_t kFineRatio = 4, kCoarseRatio = 128;
/// What kernels and rings are made for.
constexpr std::int64_t kWindowTokens = 128, kIndexDim = 128;

/// The layer of `sources`, which ascend, that `layer` reads: itself or the last one before it.
std::optional<std::int64_t> earlier_source(const std::vector<std::int64_t>& sources, std::int64_t layer) {
  const auto after = std::ranges::upper_bound(sources, layer);
  if (after == sources.begin() || *(after - 1) == layer) return std::nullopt;
  return *(after - 1);
}

/// By the ratio alone.
void set_own_entries(LayerAttention& shape) {
  // So many entries that a query cannot see them all are selected from.
  shape.indexed = shape.ratio > 0 && shape.ratio < kCoarseRatio;
  shape.overlaps = shape.ratio == kFineRatio;
  if (shape.ratio != 1) return;
  shape.entry_form = EntryForm::kOwnRow;
  shape.layout = LatentLayout::kV32;
}

/// By the layers that the config names.
void set_shared_entries(const SharedStreams& streams, std::int64_t layer, LayerAttention& shape) {
  if (!shape.has_entries()) return;
  shape.indexed = true;
  shape.entry_form = EntryForm::kLatent;
  shape.key_source = earlier_source(streams.kv_source_layer_ids, layer);
  shape.index_source = earlier_source(streams.index_source_layer_ids, layer);
  if (!shape.index_source && layer >= streams.candidate_source_layer_id) {
    shape.candidates = {.source = streams.candidate_source_layer_id,
                        .count = streams.candidate_topk_blocks,
                        .block_size = streams.candidate_block_size};
  }
}

}  // namespace

std::string_view layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::kSlidingWindow:
      return "sliding window";
    case LayerKind::kCsa:
      return "CSA";
    case LayerKind::kHca:
      return "HCA";
    case LayerKind::kReindexed:
      return "CSA reindexed";
    case LayerKind::kReused:
      return "CSA reused";
  }
  return "?";
}

LayerAttention attention_of(const ModelConfig& config, std::int64_t block) {
  LayerAttention shape{.window_tokens = config.sliding_window,
                       .ratio = config.compress_ratio(block),
                       .num_heads = config.num_attention_heads,
                       .head_dim = config.head_dim,
                       .rope_dim = config.qk_rope_head_dim,
                       .norms_queries = config.family->norms_queries};
  if (config.streams) {
    set_shared_entries(*config.streams, block, shape);
  } else {
    set_own_entries(shape);
  }
  if (shape.has_entries()) shape.rope = RopeKind::kScaled;
  if (config.family->has_grouped_rows) {
    const int width = static_cast<int>(config.head_dim);
    shape.window_row = GroupedRow{.codes = GroupedCodes::kFp8, .width = width};
    if (shape.has_entries()) shape.entry_row = GroupedRow{.codes = GroupedCodes::kFp4, .width = width};
  }
  if (shape.indexed) {
    shape.top_k = config.index_topk;
    shape.index_heads = config.index_n_heads;
    shape.index_dim = config.index_head_dim;
  }
  return shape;
}

std::string why_not_runnable(const LayerAttention& shape) {
  const bool has_latents = shape.has_entries() && shape.entry_form == EntryForm::kLatent;
  if (has_latents && shape.ratio > 2) {
    return fmt::format("latents of {} positions; expected of 1 or 2", shape.ratio);
  }
  if (shape.ratio == 1 && !has_latents) {
    return "attention over every position's own row (ratio 1, as DeepSeek-V3.2 has): the operations select "
           "from compressed "
           "entries; expected 0, 4 or 128";
  }
  if (!has_latents && shape.ratio != 0 && shape.ratio != kFineRatio && shape.ratio != kCoarseRatio) {
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
