/// What the cost of a step depends on, as sums over its parts.
/// (source: simulation specification 1.1, 2, 8)
///
/// With S tokens of a sequence after the step and p before it, a query at position t sees min(t + 1, W)
/// window rows, scores (t + 1) div 4 index keys, selects min(K, (t + 1) div 4) entries of ratio 4, and sees
/// (t + 1) div 128 of ratio
/// 128. A compressor emits S div r - p div r entries.
#pragma once

#include <cstdint>
#include <span>

#include "simulator/serving/step_times.h"

namespace baleen {

/// Of the model.
struct AttentionReach {
  std::int64_t window_tokens = 128;  ///< W
  std::int64_t index_top_k = 512;    ///< K
};

struct StepFeatures {
  std::int64_t num_tokens = 0;
  std::int64_t num_parts = 0;
  std::int64_t num_logit_rows = 0;
  std::int64_t window_rows = 0;       ///< sums over queries
  std::int64_t index_scores = 0;      ///< scores that layers of ratio 4 compute
  std::int64_t selected_entries = 0;  ///< entries that layers of ratio 4 read
  std::int64_t coarse_entries = 0;    ///< entries that layers of ratio 128 read
  std::int64_t emissions = 0;         ///< entries that layers of ratio 4 write
  std::int64_t coarse_emissions = 0;  ///< entries that layers of ratio 128 write

  [[nodiscard]] friend bool operator==(const StepFeatures&, const StepFeatures&) = default;
};

[[nodiscard]] StepFeatures features_of(std::span<const QueryPart> parts, const AttentionReach& reach);

/// Of the rows that go through the decoder half of the model, which see window rows from where it begins:
/// those of `features_of` where the half is computed on all.
[[nodiscard]] StepFeatures decoder_features_of(std::span<const QueryPart> parts, const AttentionReach& reach);

}  // namespace baleen
