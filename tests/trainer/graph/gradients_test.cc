// Gradients of a whole model against central differences of its float64 loss.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/graph/tiny_model.h"

namespace baleen {
namespace {

constexpr double kMtpWeight = 0.3;
constexpr std::size_t kSamples = 24;  // of a tensor

class ModelGradients : public testing::TestWithParam<PassOptions> {};

TEST_P(ModelGradients, AreTheCentralDifferences) {
  const ModelConfig config = test::tiny_model();
  const HashTables tables = make_hash_tables(config, 3);
  ThreadPool pool(1);
  TrainingGraph<double> graph(config, tables, pool);
  Parameters<double> weights = test::random_weights<double>(config, 1);
  const TrainingBatch batch = test::documents(config, {18, 1, 9}, 2);
  const auto loss = [&](Parameters<double>* gradients) {
    const LossReport report = graph.run(weights, batch, GetParam(), gradients);
    return (report.loss_sum + GetParam().mtp_weight * report.mtp_loss_sum) /
           static_cast<double>(batch.num_global_targets);
  };
  Parameters<double> gradients(config);
  loss(&gradients);
  std::mt19937 random(5);
  double worst = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::span<double> values = weights.values(i);
    const std::span<const double> got = gradients.values(i);
    double largest = 0;
    for (const double g : got) largest = std::max(largest, std::fabs(g));
    for (std::size_t sample = 0; sample < std::min(kSamples, values.size()); ++sample) {
      const std::size_t at = values.size() <= kSamples ? sample : random() % values.size();
      const auto error_of_step = [&](double step) {
        const double before = values[at];
        values[at] = before + step;
        const double above = loss(nullptr);
        values[at] = before - step;
        const double below = loss(nullptr);
        values[at] = before;
        return std::fabs((above - below) / (2 * step) - got[at]);
      };
      const double most = 1e-6 * largest + 1e-9;
      // Where a clamp or a choice changes within the step, the difference is no derivative: a smaller step
      // ends before it.
      double error = error_of_step(2e-5);
      if (error > most) error = error_of_step(1e-6);
      EXPECT_LE(error, most) << weights.spec(i).name << "[" << at << "] = " << got[at];
      if (largest > 0) worst = std::max(worst, error / largest);
    }
  }
  testing::Test::RecordProperty("worst", std::to_string(worst * 1e9) + "e-9");
}

INSTANTIATE_TEST_SUITE_P(
    Passes, ModelGradients,
    testing::Values(PassOptions{.mtp_weight = kMtpWeight},
                    PassOptions{
                        .mtp_weight = 0, .recompute = false, .dense_attention = true, .scaled_rope = true}),
    [](const auto& tested) { return tested.param.dense_attention ? "DenseAttention" : "WithIndexerAndMtp"; });

}  // namespace
}  // namespace baleen
