// Gradients of a whole model against central differences of its float64 loss.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/graph/tiny_model.h"

namespace baleen {
namespace {

constexpr double kMtpWeight = 0.3;
constexpr std::size_t kSamples = 8;  // of a tensor

struct Tested {
  const char* name;
  PassOptions options;
  ModelConfig (*model)() = test::tiny_model;
};

ModelConfig model_of(const Tested& tested) {
  ModelConfig config = tested.model();
  if (tested.options.plain_residual) config.hc_mult = 1;
  return config;
}

/// What the gradients of a tensor are of: the indexers have their own loss, of which all others have nothing.
double loss_of(const TensorSpec& tensor, const LossReport& report, const TrainingBatch& batch,
               const PassOptions& options) {
  if (tensor.role == TensorRole::kIndexer)
    return options.indexer_weight * report.indexer_loss_sum / static_cast<double>(batch.num_global_tokens);
  return (report.loss_sum + options.mtp_weight * report.mtp_loss_sum) /
             static_cast<double>(batch.num_global_targets) +
         options.balance_weight * report.balance_loss_sum / static_cast<double>(batch.num_global_documents);
}

class ModelGradients : public testing::TestWithParam<Tested> {};

TEST_P(ModelGradients, AreTheCentralDifferences) {
  const PassOptions& options = GetParam().options;
  const ModelConfig config = model_of(GetParam());
  const TokenTables tables = test::token_tables(config);
  ThreadPool pool(1);
  TrainingGraph<double> graph(config, tables, pool);
  Parameters<double> weights = test::random_weights<double>(config, 1, options.plain_residual);
  const TrainingBatch batch = test::documents(config, {18, 1, 9}, 2);
  Parameters<double> gradients(weights.table());
  graph.run(weights, batch, options, &gradients);
  std::mt19937 random(5);
  double worst = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::span<double> values = weights.values(i);
    const std::span<const double> got = gradients.values(i);
    const auto loss = [&] {
      return loss_of(weights.spec(i), graph.run(weights, batch, options, nullptr), batch, options);
    };
    double largest = 0;
    for (const double g : got) largest = std::max(largest, std::fabs(g));
    for (std::size_t sample = 0; sample < std::min(kSamples, values.size()); ++sample) {
      const std::size_t at = values.size() <= kSamples ? sample : random() % values.size();
      const auto error_of_step = [&](double step) {
        const double before = values[at];
        values[at] = before + step;
        const double above = loss();
        values[at] = before - step;
        const double below = loss();
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

TEST_P(ModelGradients, OfFloatsAreNearThoseOfDoubles) {
  const PassOptions& options = GetParam().options;
  const ModelConfig config = model_of(GetParam());
  const TokenTables tables = test::token_tables(config);
  ThreadPool pool(1);
  const TrainingBatch batch = test::documents(config, {18, 1, 9}, 2);
  const auto weights = test::random_weights<float>(config, 1, options.plain_residual);
  const auto exact_weights = test::random_weights<double>(config, 1, options.plain_residual);
  Parameters<float> gradients(weights.table());
  Parameters<double> exact(weights.table());
  TrainingGraph<float>(config, tables, pool).run(weights, batch, options, &gradients);
  TrainingGraph<double>(config, tables, pool).run(exact_weights, batch, options, &exact);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double largest = 0, error = 0;
    for (std::size_t at = 0; at < exact.values(i).size(); ++at) {
      largest = std::max(largest, std::fabs(exact.values(i)[at]));
      error = std::max(error, std::fabs(static_cast<double>(gradients.values(i)[at]) - exact.values(i)[at]));
    }
    EXPECT_LE(error, 1e-3 * largest + 1e-6) << exact.spec(i).name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Passes, ModelGradients,
    testing::Values(
        Tested{"WithIndexerAndMtp", {.mtp_weight = kMtpWeight}},
        Tested{"DenseAttention",
               {.mtp_weight = 0, .recompute = false, .dense_attention = true, .scaled_rope = true}},
        Tested{"AllLosses", {.mtp_weight = kMtpWeight, .indexer_weight = 0.7, .balance_weight = 0.5}},
        Tested{"IndexersOfDenseAttention",
               {.mtp_weight = 0, .recompute = false, .dense_attention = true, .indexer_weight = 0.7}},
        Tested{"PlainResidual", {.mtp_weight = kMtpWeight, .indexer_weight = 1, .plain_residual = true}},
        Tested{"SharedLatents", {}, test::tiny_v41_model},
        Tested{"SharedLatentsAllLosses",
               {.recompute = false, .indexer_weight = 0.7, .balance_weight = 0.5, .scaled_rope = true},
               test::tiny_v41_model},
        Tested{"IndexersOfSharedLatents",
               {.dense_attention = true, .indexer_weight = 0.7},
               test::tiny_v41_model}),
    [](const auto& tested) { return tested.param.name; });

/// Gradients of one pass over documents that leave entries out.
Parameters<float> gradients_of(const PassOptions& options, int num_threads = 1,
                               ModelConfig config = test::tiny_model()) {
  config.index_head_dim = 32;  // which FP4 shares a scale
  const TokenTables tables = test::token_tables(config);
  ThreadPool pool(num_threads);
  TrainingGraph<float> graph(config, tables, pool);
  Parameters<float> gradients(config);
  graph.run(test::random_weights<float>(config, 1), test::documents(config, {90, 40, 1, 25}, 2), options,
            &gradients);
  return gradients;
}

bool is_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

/// Of gradients: 1 where both point the same way.
double cosine(std::span<const float> x, std::span<const float> y) {
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += static_cast<double>(x[i]) * y[i];
    xx += static_cast<double>(x[i]) * x[i];
    yy += static_cast<double>(y[i]) * y[i];
  }
  return xx == 0 && yy == 0 ? 1 : xy / std::sqrt(xx * yy);
}

TEST(Bf16Products, ChangeALittleOfLossAndGradientsAndNothingBetweenThreads) {
  const ModelConfig config = test::tiny_model();
  const TokenTables tables = test::token_tables(config);
  const Parameters<float> weights = test::random_weights<float>(config, 1);
  const TrainingBatch batch = test::documents(config, {40, 7, 66}, 2);
  const auto run = [&](bool bf16, int threads, Parameters<float>& gradients) {
    ThreadPool pool(threads);
    TrainingGraph<float> graph(config, tables, pool);
    const PassOptions options{.mtp_weight = kMtpWeight, .dense_attention = true, .bf16_products = bf16};
    return graph.run(weights, batch, options, &gradients).loss_sum;
  };
  Parameters<float> plain(weights.table()), rounded(weights.table()), on_threads(weights.table());
  const double loss = run(false, 1, plain);
  const double rounded_loss = run(true, 1, rounded);
  EXPECT_NE(loss, rounded_loss);
  EXPECT_NEAR(rounded_loss, loss, 0.01 * loss);
  EXPECT_EQ(run(true, 3, on_threads), rounded_loss);
  std::vector<float> all_plain, all_rounded;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_TRUE(std::ranges::equal(rounded.values(i), on_threads.values(i))) << weights.spec(i).name;
    EXPECT_GT(cosine(plain.values(i), rounded.values(i)), 0.9) << weights.spec(i).name;
    all_plain.insert(all_plain.end(), plain.values(i).begin(), plain.values(i).end());
    all_rounded.insert(all_rounded.end(), rounded.values(i).begin(), rounded.values(i).end());
  }
  EXPECT_GT(cosine(all_plain, all_rounded), 0.99);
}

class IndexersLossOf : public testing::TestWithParam<ModelConfig (*)()> {};
INSTANTIATE_TEST_SUITE_P(Families, IndexersLossOf, testing::Values(test::tiny_model, test::tiny_v41_model));

TEST_P(IndexersLossOf, GivesTheTrunkTheSameBits) {
  const Parameters<float> without = gradients_of({}, 1, GetParam()()),
                          with = gradients_of({.indexer_weight = 0.7}, 1, GetParam()());
  for (std::size_t i = 0; i < with.size(); ++i) {
    const TensorSpec& tensor = with.spec(i);
    if (tensor.storage == Storage::kI64) continue;
    if (tensor.role == TensorRole::kIndexer) {
      EXPECT_TRUE(is_zero(without.values(i))) << tensor.name;
      EXPECT_FALSE(is_zero(with.values(i))) << tensor.name;
    } else {
      EXPECT_TRUE(std::ranges::equal(without.values(i), with.values(i))) << tensor.name;
    }
  }
}

/// Rounding to FP4 is coarse, but a gradient that left out the transform before it would point elsewhere.
TEST(IndexersLoss, LearnsInTheSameDirectionWhereValuesAreRounded) {
  const Parameters<float> plain = gradients_of({.dense_attention = true, .indexer_weight = 1});
  const Parameters<float> rounded =
      gradients_of({.dense_attention = true, .indexer_weight = 1, .rounds_as_released = true});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain.spec(i).role != TensorRole::kIndexer) continue;
    EXPECT_GT(cosine(plain.values(i), rounded.values(i)), 0.8) << plain.spec(i).name;
  }
}

TEST_P(IndexersLossOf, AloneIsWhatItIsBesideTheOthers) {
  const PassOptions dense{.dense_attention = true, .indexer_weight = 0.7};
  PassOptions alone = dense;
  alone.indexers_alone = true;
  const Parameters<float> all = gradients_of(dense, 1, GetParam()()),
                          indexers = gradients_of(alone, 3, GetParam()());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all.spec(i).role == TensorRole::kIndexer) {
      EXPECT_TRUE(std::ranges::equal(all.values(i), indexers.values(i))) << all.spec(i).name;
    } else {
      EXPECT_TRUE(is_zero(indexers.values(i))) << all.spec(i).name;
    }
  }
}

}  // namespace
}  // namespace baleen
