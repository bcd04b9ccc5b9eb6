/// The arithmetic that a model needs for a batch, from its configuration alone: two FLOPs for each parameter
/// that a token uses and for each product of attention. What is computed again for a backward is not in it,
/// so that the share of a machine's peak says how well the time is used.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/config.h"
#include "trainer/graph/pass_options.h"
#include "training_data/batch_sampler.h"

namespace baleen {

enum class ModelPart : std::uint8_t { kAttention, kExperts, kMixing, kHead, kMtpEntry };
inline constexpr std::size_t kNumModelParts = 5;

class ModelFlops {
 public:
  /// `config` outlives it. The indexers are left out, trained or not.
  explicit ModelFlops(const ModelConfig& config, bool plain_residual = false);

  /// Of one forward over `batch`, by part; a backward takes twice as many. `dense_attention`: ratio-4 layers
  /// attend to all entries.
  [[nodiscard]] std::array<double, kNumModelParts> forward(const TrainingBatch& batch, bool with_mtp,
                                                           bool dense_attention) const;
  /// Of forward and backward, all parts; where the indexers learn alone, of the forward.
  [[nodiscard]] double step(const TrainingBatch& batch, const PassOptions& options) const;

 private:
  [[nodiscard]] double attention_keys(std::int64_t block, std::int64_t num_tokens, bool dense) const;

  const ModelConfig& config_;
  std::array<double, kNumModelParts> main_{};  ///< parameters that a token uses
  std::array<double, kNumModelParts> mtp_{};   ///< the same of MTP blocks, with their use of the head
};

}  // namespace baleen
