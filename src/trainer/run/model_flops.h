/// The arithmetic that a model needs for a batch, from its configuration alone: two FLOPs for each parameter
/// that a token uses, and for each product of attention and of the indexers' scores. A backward takes twice
/// as many; but an indexer's parameters once more only, since nothing learns from it but itself. What is
/// computed again for a backward is not in it, nor what a product computes beyond what is seen, so that the
/// share of a machine's peak says how well the time is used.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/config.h"
#include "trainer/graph/pass_options.h"
#include "trainer/graph/pass_record.h"
#include "training_data/batch_sampler.h"

namespace baleen {

/// By part; indexers are of attention.
struct PassFlops {
  std::array<double, kNumModelParts> forward{}, backward{};
};

class ModelFlops {
 public:
  /// `config` outlives it.
  explicit ModelFlops(const ModelConfig& config, bool plain_residual = false);

  [[nodiscard]] PassFlops pass(const TrainingBatch& batch, const PassOptions& options) const;
  /// Of forward and backward, all parts.
  [[nodiscard]] double step(const TrainingBatch& batch, const PassOptions& options) const;

 private:
  [[nodiscard]] double attention_keys(std::int64_t block, std::int64_t num_tokens, bool dense) const;
  /// Products of queries and keys of an indexer over a document.
  [[nodiscard]] double score_products(std::int64_t block, std::int64_t num_tokens) const;

  const ModelConfig& config_;
  std::array<double, kNumModelParts> main_{};  ///< parameters that a token uses
  /// Parameters of MTP blocks that a token uses, their use of the head included.
  std::array<double, kNumModelParts> mtp_{};
  double main_indexers_ = 0, mtp_indexers_ = 0;  ///< parameters of indexers, beside those
};

}  // namespace baleen
