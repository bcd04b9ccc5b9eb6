/// What a deployment is asked to do in one step.                                   (source: simulation 1, 7)
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/parallel_plan.h"

namespace baleen {

/// Queries are global and are shared out over dp.
struct Workload {
  std::int64_t num_queries = 1;
  std::int64_t query_length = 1;    ///< new tokens of each; while decoding 1, and the drafts
  std::int64_t context_length = 0;  ///< positions of each that are cached before
  bool decode = false;
  std::int64_t num_drafts = 0;  ///< drafted for each step of decoding
  /// Of draft i, given that those before it were accepted; the last one holds for the rest.
  std::vector<double> draft_acceptance;
  /// Data-parallel groups that have queries in this step, each of them as many as the busiest; 0: all.
  std::int64_t active_groups = 0;
  /// Forward of a step of training: logits of every token, and the draft head over all of them.
  bool trains = false;
  /// Share of a prompt's tokens that the cache has, in [0, 1); not while decoding.
  double prefix_cache_hit_rate = 0;
  /// Last tokens of a prompt that the decoder half of the model (model/decoder_half.h) is computed on; 0:
  /// all.
  std::int64_t bounded_replay = 0;
  std::int64_t prompt_behind = 0;  ///< tokens of each prompt that later steps compute
  double imbalance = 1;            ///< heaviest rank's share of routed tokens over the mean, >= 1
  double hash_imbalance = 1;       ///< as `imbalance`, in layers routed by token id
  double zipf = 0;  ///< tokens choose the expert of rank r with a probability of 1/r^zipf; 0: evenly
  double guessed_experts = 0;  ///< share of chosen experts on the host that is fetched ahead by a guess

  /// Tokens that a step of decoding yields for each query on average: 1 + a1 + a1 a2 + ...
  [[nodiscard]] double tokens_per_step() const;
};

/// Drafts that the model's draft head makes for a step; 0: it has none.
[[nodiscard]] std::int64_t most_drafts(const ModelConfig& config);

/// The share of drafts, of each given that those before it were accepted, with which a step of `num_drafts`
/// yields `tokens_per_step` on average: 1 + a + a^2 + ... Throws `Error` for less than 1 or more than 1 +
/// num_drafts.
[[nodiscard]] double acceptance_for(double tokens_per_step, std::int64_t num_drafts);

/// The share of each draft given that those before it were accepted, from the shares of chains that come as
/// far as their first, second, ... draft, which is how engines publish them. Throws `Error` unless these fall
/// from 1 or less to 0 or more.
[[nodiscard]] std::vector<double> acceptance_of_published(std::span<const double> shares);

/// TensorCast's rates, for want of measured ones.
inline constexpr double kAssumedAcceptance[] = {0.9, 0.6, 0.4, 0.2};

/// Throws `Error` for values that mean nothing: fewer than one query or token, more positions than the model
/// has, rates outside [0, 1].
void validate(const Workload& workload, const ModelConfig& config);

/// One sequence's part of a step.
struct QueryPart {
  std::int64_t start = 0;          ///< positions cached before
  std::int64_t num_tokens = 1;     ///< new ones
  std::int64_t num_logits = 1;     ///< how many of the last rows want logits
  std::int64_t decoder_begin = 0;  ///< positions before end before the decoder half of the model

  /// First rows that do.
  [[nodiscard]] std::int64_t num_encoded() const {
    return std::clamp<std::int64_t>(decoder_begin - start, 0, num_tokens);
  }
  /// The rows behind them.
  [[nodiscard]] QueryPart in_decoder() const {
    return {start + num_encoded(), num_tokens - num_encoded(), num_logits, decoder_begin};
  }
  /// The decoder half has other rows than the layers before it, or sees less of a window.
  [[nodiscard]] bool is_bounded(std::int64_t window_tokens) const {
    return decoder_begin > std::max<std::int64_t>(0, start + 1 - window_tokens);
  }
};

/// What the busiest rank of a dp group computes in a step.
using RankBatch = std::vector<QueryPart>;

[[nodiscard]] RankBatch rank_batch(const Workload& workload, const ParallelPlan& plan);

[[nodiscard]] std::int64_t num_rows(const RankBatch& batch);
[[nodiscard]] std::int64_t num_logit_rows(const RankBatch& batch);

}  // namespace baleen
