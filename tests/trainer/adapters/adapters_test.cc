// Low-rank adapters: gradients of the factors through the whole model, and the merged weights.
#include "trainer/adapters/adapters.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/weight_binding.h"
#include "tests/trainer/graph/tiny_model.h"

namespace baleen {
namespace {

constexpr std::int64_t kRank = 3;

/// A tiny model in float64 one matrix of which is W0 + 0.7 B A.
class AdaptedModel {
 public:
  AdaptedModel()
      : config_(test::tiny_model()),
        tables_(make_token_tables(config_, 1)),
        pool_(1),
        weights_(test::random_weights<double>(config_, 1)),
        batch_(test::documents(config_, {13, 6}, 2)) {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (weights_.spec(i).name == "layers.1.attn.wq_b") matrix_ = i;
    const TensorSpec& spec = weights_.spec(matrix_);
    shape_ = {.out = spec.shape[0], .in = spec.shape[1], .rank = kRank, .scale = 0.7};
    base_.assign(weights_.values(matrix_).begin(), weights_.values(matrix_).end());
    for (std::int64_t i = 0; i < kRank * shape_.in; ++i) a_.push_back(std::sin(static_cast<double>(i)));
    for (std::int64_t i = 0; i < kRank * shape_.out; ++i) b_.push_back(std::cos(static_cast<double>(i)) / 5);
  }

  double loss(Parameters<double>* gradients = nullptr) {
    low_rank_forward(shape_, base_.data(), a_.data(), b_.data(), weights_.values(matrix_).data());
    TrainingGraph<double> graph(config_, tables_, pool_);
    const LossReport report = graph.run(weights_, batch_, {.mtp_weight = 0}, gradients);
    return report.loss_sum / static_cast<double>(batch_.num_global_targets);
  }

  /// The largest difference between `gradient` and the central differences of every third value of `factor`.
  double worst_difference(std::vector<double>& factor, const std::vector<double>& gradient) {
    constexpr double kStep = 1e-5;
    double worst = 0;
    for (std::size_t i = 0; i < factor.size(); i += 3) {
      const double before = factor[i];
      factor[i] = before + kStep;
      const double above = loss();
      factor[i] = before - kStep;
      const double below = loss();
      factor[i] = before;
      worst = std::max(worst, std::fabs((above - below) / (2 * kStep) - gradient[i]));
    }
    return worst;
  }

  ModelConfig config_;
  TokenTables tables_;
  ThreadPool pool_;
  Parameters<double> weights_;
  TrainingBatch batch_;
  std::size_t matrix_ = 0;
  LowRankShape shape_;
  std::vector<double> base_, a_, b_;
};

TEST(Adapters, GradientsOfTheFactorsAreThoseOfCentralDifferences) {
  AdaptedModel model;
  Parameters<double> gradients(model.config_);
  model.loss(&gradients);
  std::vector<double> da(model.a_.size()), db(model.b_.size());
  low_rank_backward(model.shape_, model.a_.data(), model.b_.data(), gradients.values(model.matrix_).data(),
                    da.data(), db.data());
  double largest = 0;
  for (const double value : da) largest = std::max(largest, std::fabs(value));
  EXPECT_GT(largest, 1e-4);
  EXPECT_LT(model.worst_difference(model.a_, da), 1e-6);
  EXPECT_LT(model.worst_difference(model.b_, db), 1e-6);
}

TEST(Adapters, StartAtTheWeightsAndMergeTheProductOfChosenMatricesAlone) {
  TrainConfig config;
  config.model = test::tiny_model();
  config.tune.tensors = {"layers.0.attn.w*"};
  config.lora = {.rank = 2, .alpha = 4};
  Parameters<float> weights = test::random_weights<float>(config.model, 1);
  const Parameters<float> before = weights;
  Adapters adapters(config);
  adapters.set_base(weights);
  adapters.merge(weights);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(weights.values(i), before.values(i))) << weights.spec(i).name;

  Parameters<float>& factors = adapters.factors();
  ASSERT_EQ(factors.spec(1).name, "layers.0.attn.wq_a.lora_b");
  const std::span<const float> a = factors.values(0);
  factors.values(1)[0] = 1;  // row 0 of B, rank 0
  adapters.merge(weights);
  const TensorRow adapted = bind_rows(config.model, weights.table()).block(0).attention.wq_a;
  const std::span<const float> now = weights.values(adapted), first = before.values(adapted);
  const auto width = static_cast<std::size_t>(config.model.hidden_size);
  for (std::size_t column = 0; column < width; ++column)
    EXPECT_FLOAT_EQ(now[column], first[column] + 2 * a[column]);
  EXPECT_EQ(now[width], first[width]);
  for (std::size_t i = 0; i < factors.size(); ++i)
    EXPECT_TRUE(factors.spec(i).name.starts_with("layers.0.attn.w")) << factors.spec(i).name;
}

}  // namespace
}  // namespace baleen
