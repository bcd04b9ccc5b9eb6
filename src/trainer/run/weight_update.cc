#include "trainer/run/weight_update.h"

#include "base/error.h"
#include "trainer/run/import.h"

namespace baleen {

std::int64_t start_state(const TrainConfig& config, const RunFolder& folder, bool resume, RunState& state,
                         ThreadPool& pool, bool is_first_rank) {
  const std::vector<std::int64_t> checkpoints = folder.checkpoints();
  if (!resume && !checkpoints.empty()) {
    fail(
        "{}: there is a run with checkpoints up to step {}; ‹resume› continues it, ‹output folder› names "
        "another folder",
        folder.path().string(), checkpoints.back());
  }
  if (resume && checkpoints.empty())
    fail("{}: no checkpoint to continue from; start the run without ‹resume›", folder.path().string());
  if (resume) {
    read_newest_checkpoint(folder, config, state, is_first_rank);
    return state.step;
  }
  if (config.run.from.empty()) {
    initialise(state.weights, config.model, config.initializer_range, config.run.seed);
  } else {
    import_weights(config, state.weights, pool);
  }
  if (state.adapters) state.adapters->set_base(state.weights);
  return -1;
}

WeightUpdate::WeightUpdate(const TrainConfig& config, RunState& state, ThreadPool& pool, TrainingRanks ranks)
    : config_(config), state_(state), pool_(pool), ranks_(std::move(ranks)) {
  if (state.adapters) of_factors_.emplace(state.adapters->factors().table());
}

GradientNorms WeightUpdate::prepare(Parameters<float>& of_model) {
  gradients_ = &of_model;
  if (state_.adapters) {
    state_.adapters->gradients(of_model, *of_factors_);
    gradients_ = &*of_factors_;
  }
  const Optimiser& optimiser = state_.optimiser;
  ranks_.sum_at_homes(optimiser.homes(), *gradients_);
  std::vector<double> squares = gradient_squares(*gradients_, optimiser.tensors(), pool_);
  ranks_.add_to_all(squares);
  return gradient_norms(gradients_->table(), optimiser.groups(), squares);
}

std::int64_t WeightUpdate::apply(const GradientNorms& norms, double learning_rate, UpdateScope scope) {
  Optimiser& optimiser = state_.optimiser;
  clip_gradients(*gradients_, optimiser.tensors(), optimiser.groups(), norms, config_.optimizer.gradient_clip,
                 pool_);
  auto num_left =
      static_cast<double>(optimiser.update(state_.trained(), *gradients_, learning_rate, pool_, scope));
  ranks_.add_to_all({&num_left, 1});
  ranks_.share_from_homes(optimiser.homes(), state_.trained());
  if (state_.adapters) state_.adapters->merge(state_.weights);
  return static_cast<std::int64_t>(num_left);
}

}  // namespace baleen
