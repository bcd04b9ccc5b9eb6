/// What the models of a family have in common that no field of config.json says: DeepSeek-V4, and V4.1.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "numeric/block_scale.h"
#include "numeric/weight_format.h"

namespace baleen {

class RankConfig;
struct TensorSpec;

/// Which routed experts of a block a table lists: the first `listed`, each of which stands for `each`.
struct ExpertRows {
  std::int64_t listed = 0;
  std::int64_t each = 1;
};

struct ModelFamily {
  /// The table, of what a rank has (model/tensor_table.h).
  std::vector<TensorSpec> (*tensors)(const RankConfig& rank, ExpertRows experts);
  std::string_view name = "DeepSeek-V4";
  /// The final collapse of residual streams has weights of its own, "hc_head_*"; without them it is by those
  /// of the last half-block before it, as each half-block's is by its predecessor's.
  bool has_head_mixing = true;
  /// Each head's query is normed before its rotation.
  bool norms_queries = true;
  /// Added to the sum of a token's routing weights, by which they are divided.
  double routing_sum_eps = 0;
  /// What a DSpark head reads of its target layers are the streams that enter them, not those that leave
  /// them.
  bool drafts_from_inputs = false;
  /// Cache rows in released precision are `GroupedRow`s.
  bool has_grouped_rows = false;
  /// What FP8 matrices are, and how many inputs of activations in front of codes share a scale.
  WeightFormat fp8_format = WeightFormat::kFp8;
  int activation_group = kActivationGroup;
  /// What a DSpark head's embedding of tokens and its head are called behind "markov_head.".
  std::array<std::string_view, 2> markov_names = {"markov_w1", "markov_w2"};
};

extern const ModelFamily kDeepSeekV4;
extern const ModelFamily kDeepSeekV41;

}  // namespace baleen
