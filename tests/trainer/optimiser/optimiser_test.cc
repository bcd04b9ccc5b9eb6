// AdamW, Muon, the groups and clipping against straightforward references in double.
#include "trainer/optimiser/optimiser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "model/presets.h"
#include "model/weight_binding.h"
#include "trainer/optimiser/adamw.h"
#include "trainer/optimiser/gradient_norm.h"
#include "trainer/optimiser/muon.h"

namespace baleen {
namespace {

using Matrix = std::vector<double>;

std::vector<float> random_values(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

/// x yᵀ of [rows, inner] and [columns, inner].
Matrix times_transposed(const Matrix& x, const Matrix& y, std::size_t inner) {
  const std::size_t rows = x.size() / inner, columns = y.size() / inner;
  Matrix product(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t k = 0; k < inner; ++k) product[i * columns + j] += x[i * inner + k] * y[j * inner + k];
  return product;
}

Matrix transposed(const Matrix& x, std::size_t columns) {
  Matrix result(x.size());
  const std::size_t rows = x.size() / columns;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = x[i * columns + j];
  return result;
}

/// Ten steps on a matrix with rows <= columns, in double.
Matrix orthogonalised(Matrix m, std::size_t rows, std::size_t columns) {
  const double norm = std::sqrt(std::inner_product(m.begin(), m.end(), m.begin(), 0.0));
  for (double& value : m) value /= norm;
  for (int step = 0; step < 10; ++step) {
    const double a = step < 8 ? 3.4445 : 2, b = step < 8 ? -4.7750 : -1.5, c = step < 8 ? 2.0315 : 0.5;
    const Matrix square = times_transposed(m, m, columns);
    const Matrix fourth = times_transposed(square, square, rows);
    Matrix factor(square.size());
    for (std::size_t i = 0; i < square.size(); ++i) factor[i] = b * square[i] + c * fourth[i];
    const Matrix change = times_transposed(factor, transposed(m, columns), rows);
    for (std::size_t i = 0; i < m.size(); ++i) m[i] = a * m[i] + change[i];
  }
  return m;
}

TEST(Optimiser, AdamWFollowsItsFormulas) {
  const AdamWConfig config;
  constexpr std::size_t kSize = 100;
  std::vector<float> weights = random_values(kSize, 1), first(kSize), second(kSize);
  Matrix w(weights.begin(), weights.end()), m(kSize), v(kSize);
  ThreadPool pool(2);
  for (int update = 1; update <= 5; ++update) {
    const std::vector<float> gradient = random_values(kSize, 10U + static_cast<unsigned>(update));
    adamw_step(config, 0.1, 0.01, update, gradient, {first, second}, weights, pool);
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = gradient[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      const double mean = m[i] / (1 - std::pow(0.9, update)), square = v[i] / (1 - std::pow(0.95, update));
      w[i] -= 0.01 * (0.1 * w[i] + mean / (std::sqrt(square) + 1e-20));
    }
  }
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(weights[i], w[i], 1e-5);
}

TEST(Optimiser, ATinyGradientMovesAdamWByAFullStep) {
  std::vector<float> weight{1}, first{0}, second{0};
  ThreadPool pool(1);
  adamw_step({}, 0, 0.01, 1, std::vector<float>{1e-12F}, {first, second}, weight, pool);
  EXPECT_NEAR(weight[0], 0.99, 1e-6);
}

TEST(Optimiser, MuonFollowsItsFormulas) {
  constexpr std::size_t kRows = 12, kColumns = 20, kSize = kRows * kColumns;
  const MuonConfig config;
  std::vector<float> weights = random_values(kSize, 1), momentum(kSize), scratch;
  Matrix w(weights.begin(), weights.end()), m(kSize);
  ThreadPool pool(2);
  for (unsigned update = 0; update < 4; ++update) {
    const std::vector<float> gradient = random_values(kSize, 20 + update);
    ASSERT_TRUE(muon_step(config, 0.02, {kRows, kColumns, gradient, momentum, weights}, scratch, pool));
    Matrix u(kSize);
    for (std::size_t i = 0; i < kSize; ++i) {
      m[i] = 0.95 * m[i] + gradient[i];
      u[i] = 0.95 * m[i] + gradient[i];
    }
    const Matrix o = orthogonalised(u, kRows, kColumns);
    for (std::size_t i = 0; i < kSize; ++i)
      w[i] = w[i] * (1 - 0.02 * 0.1) - 0.02 * 0.18 * std::sqrt(double{kColumns}) * o[i];
  }
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(weights[i], w[i], 1e-5);
}

TEST(Optimiser, MuonLeavesAMatrixWithoutGradient) {
  std::vector<float> weights = random_values(16, 1), momentum = random_values(16, 2), scratch;
  const std::vector<float> before = weights, momentum_before = momentum, gradient(16);
  ThreadPool pool(1);
  EXPECT_FALSE(muon_step({}, 0.02, {4, 4, gradient, momentum, weights}, scratch, pool));
  EXPECT_EQ(weights, before);
  EXPECT_EQ(momentum, momentum_before);
}

TrainConfig small_config() {
  TrainConfig config;
  config.model = preset_config("tiny-flash");
  config.model.vocab_size = 512;
  config.run.steps = 1;
  return config;
}

const TensorSpec& tensor_called(const std::vector<TensorSpec>& table, std::string_view end) {
  for (const TensorSpec& tensor : table)
    if (tensor.name.ends_with(end)) return tensor;
  ADD_FAILURE() << "no tensor " << end;
  return table[0];
}

TEST(Optimiser, EveryTensorGoesWhereTheSpecificationPutsIt) {
  const TrainConfig config = small_config();
  const ModelConfig& model = config.model;
  const std::vector<TensorSpec> table = tensor_table(model);
  const auto group = [&](std::string_view end) { return parameter_group(tensor_called(table, end), config); };
  for (const char* name : {"embed.weight", "head.weight"}) {
    EXPECT_EQ(group(name).rule, UpdateRule::kAdamW) << name;
    EXPECT_EQ(group(name).weight_decay, 0.1) << name;
  }
  for (const char* name : {"attn_norm.weight", "enorm.weight", "compressor.norm.weight", "hc_attn_base",
                           "hc_ffn_scale", "hc_head_base", "attn_sink", ".ape"}) {
    EXPECT_EQ(group(name).rule, UpdateRule::kAdamW) << name;
    EXPECT_EQ(group(name).weight_decay, 0) << name;
  }
  for (const char* name : {"wq_a", "wq_b", "wkv", "wo_b", "gate.weight", "experts.0.w1", "shared_experts.w2",
                           "e_proj", "hc_head_fn", "weights_proj.weight"}) {
    EXPECT_EQ(group(name).rule, UpdateRule::kMuon) << name;
    EXPECT_EQ(group(name).weight_decay, 0.1) << name;
    EXPECT_EQ(group(name).matrix_rows.size(), 1U) << name;
  }
  EXPECT_EQ(group("gate.bias").rule, UpdateRule::kBalance);
  EXPECT_EQ(group("tid2eid").rule, UpdateRule::kConstant);
  EXPECT_EQ(group("hc_attn_fn").matrix_rows, (std::vector<std::int64_t>{4, 4, 16}));
  EXPECT_EQ(group("attn.wo_a").matrix_rows,
            std::vector<std::int64_t>(static_cast<std::size_t>(model.o_groups), model.o_lora_rank));
  EXPECT_EQ(group("indexer.compressor.wkv.weight").matrix_rows,
            std::vector<std::int64_t>(2, model.index_head_dim));
  EXPECT_TRUE(group("indexer.compressor.wkv.weight").is_indexer);
  EXPECT_FALSE(group("attn.wq_b").is_indexer);
}

GradientNorms norms_of(const Parameters<float>& gradients, const Optimiser& optimiser, ThreadPool& pool) {
  return gradient_norms(gradients.table(), optimiser.groups(),
                        gradient_squares(gradients, optimiser.tensors(), pool));
}

TEST(Optimiser, AnUpdateDoesNotDependOnThreads) {
  const TrainConfig config = small_config();
  const auto updated = [&](int num_threads) {
    ThreadPool pool(num_threads);
    Parameters<float> weights(config.model), gradients(config.model);
    initialise(weights, config.model, 0.02, 1);
    initialise(gradients, config.model, 0.5, 2);
    Optimiser optimiser(config, weights);
    const GradientNorms norms = norms_of(gradients, optimiser, pool);
    clip_gradients(gradients, optimiser.tensors(), optimiser.groups(), norms, 1, pool);
    EXPECT_NEAR(norms_of(gradients, optimiser, pool).trunk, 1, 1e-5);
    optimiser.update(weights, gradients, 0.01, pool);
    return weights;
  };
  const Parameters<float> one = updated(1), three = updated(3);
  for (std::size_t i = 0; i < one.size(); ++i)
    ASSERT_TRUE(std::ranges::equal(one.values(i), three.values(i))) << one.spec(i).name;
}

TEST(Optimiser, NamesTheTensorThatIsNotFinite) {
  const TrainConfig config = small_config();
  Parameters<float> gradients(config.model);
  const Optimiser optimiser(config, gradients);
  ThreadPool pool(2);
  EXPECT_EQ(norms_of(gradients, optimiser, pool).not_finite, "");
  const RowTree tree = bind_rows(config.model, gradients.table());
  gradients.values(tree.block(1).attention.wq_a)[3] = std::numeric_limits<float>::quiet_NaN();
  gradients.values(tree.block(2).attention.wq_a)[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(norms_of(gradients, optimiser, pool).not_finite, "layers.1.attn.wq_a");
}

}  // namespace
}  // namespace baleen
