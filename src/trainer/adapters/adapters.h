/// Low-rank adapters (LoRA): of each chosen matrix W only A and B of W = W0 + (alpha / rank) B A are trained.
/// The model itself always runs with the merged W, so that it is what will be exported.
#pragma once

#include <span>
#include <vector>

#include "trainer/adapters/low_rank.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"

namespace baleen {

class Adapters {
 public:
  /// One pair for each dense and expert matrix that `config.tune` chooses: "NAME.lora_a" [rank, in] normal
  /// with variance 1 / in by the run's seed, "NAME.lora_b" [out, rank] zeros. Throws `Error` where it chooses
  /// none.
  explicit Adapters(const TrainConfig& config);

  /// Keeps the chosen matrices of `weights` as W0.
  void set_base(const Parameters<float>& weights);
  /// Writes every W. On the calling thread: rank / tokens of the cost of a forward pass.
  void merge(Parameters<float>& weights) const;
  /// Overwrites `gradients`, which has the table of `factors`, by the chain rule from those of the model.
  void gradients(const Parameters<float>& of_weights, Parameters<float>& gradients) const;

  /// A and B of the matrices, one pair after the other.
  [[nodiscard]] Parameters<float>& factors() { return factors_; }
  [[nodiscard]] const Parameters<float>& factors() const { return factors_; }
  /// W0 of tensor i of the model; empty for those without adapter.
  [[nodiscard]] std::span<float> base(std::size_t i) { return base_[i]; }

 private:
  [[nodiscard]] LowRankShape shape(std::size_t i) const;

  std::vector<TensorSpec> table_;         ///< the model's
  std::vector<std::size_t> chosen_;       ///< places in it
  std::vector<std::vector<float>> base_;  ///< [model's tensors]
  Parameters<float> factors_;             ///< A of chosen_[j] at 2 j, B behind it
  std::int64_t rank_;
  double scale_;
};

}  // namespace baleen
