#include "trainer/optimiser/schedule.h"

#include <cmath>
#include <numbers>

namespace baleen {

double learning_rate_at(const TrainConfig& config, std::int64_t step) {
  const ScheduleConfig& s = config.schedule;
  const std::int64_t decay_begin = config.run.steps - s.decay_steps;
  if (step < s.warmup_steps)
    return s.learning_rate * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  if (step < decay_begin || s.decay_steps == 0) return s.learning_rate;
  if (step + 1 >= config.run.steps) return s.final_learning_rate;
  const double progress = static_cast<double>(step + 1 - decay_begin) / static_cast<double>(s.decay_steps);
  const double share = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return s.final_learning_rate + (s.learning_rate - s.final_learning_rate) * share;
}

double mtp_weight_at(const TrainConfig& config, std::int64_t step) {
  const bool decays = config.schedule.decay_steps > 0;
  const std::int64_t decay_begin = config.run.steps - config.schedule.decay_steps;
  return decays && step >= decay_begin ? config.loss.mtp_weight_in_decay : config.loss.mtp_weight;
}

IndexerStage indexer_stage_at(const TrainConfig& config, std::int64_t step) {
  if (step < config.indexer.dense_steps) return IndexerStage::kIdle;
  return step < config.indexer.dense_steps + config.indexer.warmup_steps ? IndexerStage::kWarmUp
                                                                         : IndexerStage::kSparse;
}

bool rounds_at(const TrainConfig& config, std::int64_t step) {
  return config.qat.start_step && step >= *config.qat.start_step;
}

}  // namespace baleen
