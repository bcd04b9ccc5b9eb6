/// The learning rate, the weight of the MTP loss, the stage of the indexers and the rounding of each step.
/// Steps count from 0. (source: training 2, 7, 8)
#pragma once

#include <cstdint>

#include "trainer/config/train_config.h"

namespace baleen {

/// Linear from 0 to the peak, which step `warmup_steps - 1` has; constant; then half a cosine over the last
/// `decay_steps`, whose last step has `final_learning_rate`.
[[nodiscard]] double learning_rate_at(const TrainConfig& config, std::int64_t step);

/// `mtp_weight`, and `mtp_weight_in_decay` from the first step of the decay on.
[[nodiscard]] double mtp_weight_at(const TrainConfig& config, std::int64_t step);

/// kIdle: attention is dense, the indexers are not trained. kWarmUp: attention is dense, the indexers alone
/// are trained. kSparse: attention reads what they choose, and everything is trained.
enum class IndexerStage : std::uint8_t { kIdle, kWarmUp, kSparse };

/// The first `indexer.dense_steps`, the next `indexer.warmup_steps`, the rest.
[[nodiscard]] IndexerStage indexer_stage_at(const TrainConfig& config, std::int64_t step);

/// Whether the step's forward rounds as the released formats do: from `qat.start_step` on.
[[nodiscard]] bool rounds_at(const TrainConfig& config, std::int64_t step);

}  // namespace baleen
