// Losses of single targets: their gradients on the logits against central differences, and masks of targets.
#include "trainer/graph/token_objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/trainer/graph/tiny_model.h"

namespace baleen {
namespace {

constexpr TokenId kToken = 2;

std::vector<double> some_logits(double seed) {
  std::vector<double> z(7);
  for (std::size_t v = 0; v < z.size(); ++v) z[v] = 2 * std::sin(seed + 1.7 * static_cast<double>(v));
  return z;
}

/// The gradient that `objective` gives at `z`, against central differences of its loss.
void expect_gradient(TokenObjective<double>& objective, const std::vector<double>& z) {
  constexpr double kStep = 1e-6, kScale = 0.5;
  const auto loss_at = [&](std::vector<double> values) { return objective.loss(0, kToken, values, 1); };
  std::vector<double> gradient = z;
  objective.loss(0, kToken, gradient, kScale);
  for (std::size_t v = 0; v < z.size(); ++v) {
    std::vector<double> above = z, below = z;
    above[v] += kStep;
    below[v] -= kStep;
    EXPECT_NEAR(gradient[v], kScale * (loss_at(above) - loss_at(below)) / (2 * kStep), 1e-8) << v;
  }
}

double logprob(std::vector<double> z, double temperature) {
  double result = 0;
  MeasuredLogprobs<double> measured(temperature, {&result, 1});
  EXPECT_EQ(measured.loss(0, kToken, z, 1), 0);
  for (const double value : z) EXPECT_EQ(value, 0);
  return result;
}

TEST(TokenObjective, CrossEntropy) {
  CrossEntropy<double> objective;
  const std::vector<double> z = some_logits(1);
  expect_gradient(objective, z);
  std::vector<double> values = z;
  EXPECT_NEAR(objective.loss(0, kToken, values, 1), -logprob(z, 1), 1e-12);
}

TEST(TokenObjective, PolicyGradient) {
  const std::vector<double> z = some_logits(1);
  for (const double beta : {0.0, 0.3}) {
    for (const double temperature : {1.0, 0.7}) {
      for (const double advantage : {0.8, -0.8, 0.0}) {
        // The last two lie beyond the clipping interval: above it for the first, below it for the second.
        for (const double old_offset : {-0.05, 0.05, -0.5, 0.5}) {
          const double now = logprob(z, temperature);
          const SampledTarget target{.old_logprob = now + old_offset,
                                     .reference_logprob = now + 0.4,
                                     .advantage = advantage,
                                     .weight = 0.25};
          PolicyGradient<double> objective({.clip = 0.2, .beta = beta, .temperature = temperature},
                                           {&target, 1});
          expect_gradient(objective, z);
        }
      }
    }
  }
}

TEST(TokenObjective, ClippedRatiosGiveNoGradient) {
  std::vector<double> z = some_logits(1);
  const SampledTarget target{.old_logprob = logprob(z, 1) - 1, .advantage = 1, .weight = 1};
  PolicyGradient<double> objective({}, {&target, 1});
  EXPECT_NEAR(objective.loss(0, kToken, z, 1), -1.2, 1e-12);
  for (const double value : z) EXPECT_EQ(value, 0);
}

TEST(TokenObjective, ReverseKlOverTheWholeVocabulary) {
  const std::vector<double> z = some_logits(1), hidden{0.4, -0.9};
  std::vector<double> head = some_logits(3);
  head.resize(2 * z.size(), 0.3);
  const double weight = 0.75;
  ReverseKl<double> objective(hidden, head.data(), 2, static_cast<std::int64_t>(z.size()), {&weight, 1});
  ThreadPool pool(1);
  objective.begin_chunk(0, 1, pool);
  expect_gradient(objective, z);
  std::vector<double> values = z;
  EXPECT_GT(objective.loss(0, kToken, values, 1), 0.01);
  std::vector<double> same(z.size());
  for (std::size_t v = 0; v < z.size(); ++v)
    same[v] = hidden[0] * head[2 * v] + hidden[1] * head[2 * v + 1] + 5;
  EXPECT_NEAR(objective.loss(0, kToken, same, 1), 0, 1e-12);
  for (const double value : same) EXPECT_NEAR(value, 0, 1e-12);
}

Parameters<double> gradients_of(const TrainingBatch& batch) {
  const ModelConfig config = test::tiny_model();
  const TokenTables tables = make_token_tables(config, 3);
  ThreadPool pool(1);
  Parameters<double> gradients(config);
  TrainingGraph<double>(config, tables, pool)
      .run(test::random_weights<double>(config, 1), batch, {.mtp_weight = 0.3}, &gradients);
  return gradients;
}

TEST(MaskedTargets, GiveNoGradient) {
  TrainingBatch batch = test::documents(test::tiny_model(), {17, 9}, 2);
  const Parameters<double> all = gradients_of(batch);
  TrainingBatch even = batch, odd = batch, none = batch;
  for (std::size_t i = 0; i < batch.is_target.size(); ++i) {
    (i % 2 == 0 ? odd : even).is_target[i] = 0;
    none.is_target[i] = 0;
  }
  const Parameters<double> of_even = gradients_of(even), of_odd = gradients_of(odd),
                           of_none = gradients_of(none);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t at = 0; at < all.values(i).size(); ++at) {
      ASSERT_EQ(of_none.values(i)[at], 0) << all.spec(i).name;
      ASSERT_NEAR(of_even.values(i)[at] + of_odd.values(i)[at], all.values(i)[at], 1e-12) << all.spec(i).name;
    }
  }
}

}  // namespace
}  // namespace baleen
