// What must not change results: threads, recomputation, and documents beside each other in a batch.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/trainer/graph/tiny_model.h"

namespace baleen {
namespace {

template <class T>
struct Outcome {
  LossReport report;
  Parameters<T> gradients;
};

class TrainingBatches : public testing::TestWithParam<ModelConfig (*)()> {};
INSTANTIATE_TEST_SUITE_P(Families, TrainingBatches, testing::Values(test::tiny_model, test::tiny_v41_model));

template <class T>
Outcome<T> run(const ModelConfig& config, const TrainingBatch& batch, int threads, bool recompute = true) {
  const TokenTables tables = test::token_tables(config);
  ThreadPool pool(threads);
  TrainingGraph<T> graph(config, tables, pool);
  Outcome<T> outcome{{}, Parameters<T>(config)};
  outcome.report =
      graph.run(test::random_weights<T>(config, 1), batch,
                {.recompute = recompute, .indexer_weight = 0.7, .balance_weight = 0.5}, &outcome.gradients);
  return outcome;
}

template <class T>
void expect_same_bits(const Outcome<T>& one, const Outcome<T>& other) {
  EXPECT_EQ(one.report.loss_sum, other.report.loss_sum);
  EXPECT_EQ(one.report.mtp_loss_sum, other.report.mtp_loss_sum);
  EXPECT_EQ(one.report.indexer_loss_sum, other.report.indexer_loss_sum);
  EXPECT_EQ(one.report.balance_loss_sum, other.report.balance_loss_sum);
  EXPECT_EQ(one.report.expert_load, other.report.expert_load);
  for (std::size_t i = 0; i < one.gradients.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(one.gradients.values(i), other.gradients.values(i)))
        << one.gradients.spec(i).name;
}

TEST_P(TrainingBatches, BitsDoNotDependOnThreadsOrRecomputation) {
  const ModelConfig config = GetParam()();
  const TrainingBatch batch = test::documents(config, {130, 40, 1, 77}, 2);
  const Outcome<float> one = run<float>(config, batch, 1);
  expect_same_bits(one, run<float>(config, batch, 3));
  expect_same_bits(one, run<float>(config, batch, 3, false));
}

TEST_P(TrainingBatches, PackedDocumentsDoNotSeeEachOther) {
  const ModelConfig config = GetParam()();
  const TrainingBatch both = test::documents(config, {19, 13}, 2);
  TrainingBatch first = both;
  TrainingBatch second = both;
  first.tokens.resize(19);
  first.is_target.resize(19);
  first.documents = {{0, 19}};
  second.tokens.erase(second.tokens.begin(), second.tokens.begin() + 19);
  second.is_target.erase(second.is_target.begin(), second.is_target.begin() + 19);
  second.documents = {{0, 13}};
  const Outcome<double> packed = run<double>(config, both, 2);
  const Outcome<double> a = run<double>(config, first, 2);
  const Outcome<double> b = run<double>(config, second, 2);
  EXPECT_NEAR(packed.report.loss_sum, a.report.loss_sum + b.report.loss_sum, 1e-11);
  EXPECT_NEAR(packed.report.mtp_loss_sum, a.report.mtp_loss_sum + b.report.mtp_loss_sum, 1e-11);
  EXPECT_NEAR(packed.report.indexer_loss_sum, a.report.indexer_loss_sum + b.report.indexer_loss_sum, 1e-11);
  EXPECT_NEAR(packed.report.balance_loss_sum, a.report.balance_loss_sum + b.report.balance_loss_sum, 1e-11);
  EXPECT_EQ(packed.report.num_targets, a.report.num_targets + b.report.num_targets);
  for (std::size_t i = 0; i < packed.gradients.size(); ++i) {
    const auto sum = packed.gradients.values(i);
    for (std::size_t at = 0; at < sum.size(); ++at)
      ASSERT_NEAR(sum[at], a.gradients.values(i)[at] + b.gradients.values(i)[at], 1e-12)
          << packed.gradients.spec(i).name;
  }
}

TEST_P(TrainingBatches, GradientsAccumulate) {
  const ModelConfig config = GetParam()();
  const TokenTables tables = test::token_tables(config);
  ThreadPool pool(1);
  TrainingGraph<double> graph(config, tables, pool);
  const Parameters<double> weights = test::random_weights<double>(config, 1);
  const TrainingBatch batch = test::documents(config, {11}, 2);
  Parameters<double> once(config);
  Parameters<double> twice(config);
  graph.run(weights, batch, {}, &once);
  graph.run(weights, batch, {}, &twice);
  graph.run(weights, batch, {}, &twice);
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (std::size_t at = 0; at < once.values(i).size(); ++at)
      ASSERT_NEAR(twice.values(i)[at], 2 * once.values(i)[at], 1e-12) << once.spec(i).name;
  }
}

TEST(TokenTables, GiveEveryExpertEquallyManyIds) {
  const ModelConfig config = test::tiny_model();
  const TokenTables tables = make_token_tables(config, 3);
  ASSERT_EQ(tables.experts.size(), 1U);
  std::vector<std::int64_t> uses(static_cast<std::size_t>(config.n_routed_experts));
  for (std::size_t token = 0; token < static_cast<std::size_t>(config.vocab_size); ++token) {
    const std::set<std::int64_t> experts{tables.experts[0][2 * token], tables.experts[0][2 * token + 1]};
    EXPECT_EQ(experts.size(), 2U);
    for (const std::int64_t expert : experts) ++uses[static_cast<std::size_t>(expert)];
  }
  const auto [least, most] = std::ranges::minmax(uses);
  EXPECT_LE(most - least, config.num_experts_per_tok);
}

TEST(TrainingGraphs, RejectTablesThatDoNotFit) {
  const ModelConfig config = test::tiny_model();
  ThreadPool pool(1);
  EXPECT_THROW(TrainingGraph<float>(config, {}, pool), std::runtime_error);
}

}  // namespace
}  // namespace baleen
