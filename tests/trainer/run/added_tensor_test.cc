// Tensors that a test adds to the table are read, checked, split, copied, planned, priced, trained and
// exported, though no code but their rows knows them: a matrix, and factors whose name says nothing. Their
// places are some that sliding-window layers have no use for.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/device_weights.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model/weight_binding.h"
#include "model/weights.h"
#include "model_files/made_up.h"
#include "simulator/graph/rank_model.h"
#include "tests/support/header_only.h"
#include "tests/support/temporary_folder.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/optimiser.h"
#include "trainer/run/export.h"
#include "trainer/run/model_flops.h"

namespace baleen {
namespace {

constexpr const char* kAdded = "layers.0.attn.added";
constexpr const char* kAddedFactors = "layers.0.attn.added_factors";

constexpr auto kAttentionOf = [](auto& tree, std::int64_t block, std::int64_t) -> auto& {
  return tree.blocks[static_cast<std::size_t>(block)].attention;
};

const ModelFamily kFamilyWithMore{.tensors = [](const RankConfig& rank, ExpertRows experts) {
  const ModelConfig& model = rank.model();
  const TensorSplit split = TensorSplit::kHeads;
  std::vector<TensorSpec> table = kDeepSeekV4.tensors(rank, experts);
  table.push_back({.name = kAdded,
                   .shape = rank_shape({model.q_dim(), model.hidden_size}, split, rank.share()),
                   .storage = Storage::kDense,
                   .role = TensorRole::kAttention,
                   .block = 0,
                   .split = split,
                   .place = TensorPlace::of(
                       kAttentionOf, [](auto& attention) -> auto& { return attention.indexer.wq_b; }),
                   .matrix_rows = {model.q_dim() / 4, model.q_dim() - model.q_dim() / 4}});
  table.push_back({.name = kAddedFactors,
                   .shape = {model.hidden_size},
                   .storage = Storage::kBf16,
                   .role = TensorRole::kAttention,
                   .block = 0,
                   .place = TensorPlace::of(
                       kAttentionOf, [](auto& attention) -> auto& { return attention.compressor.norm; }),
                   .kind = TensorKind::kNorm});
  return table;
}};

class AddedTensor : public testing::Test {
 protected:
  AddedTensor() : plain_(preset_config("tiny-flash")), config_(plain_) {
    config_.family = &kFamilyWithMore;
    EXPECT_FALSE(config_.attention(0).indexed);
  }
  static const WeightMatrix& added(const WeightTree& tree) { return tree.block(0).attention.indexer.wq_b; }
  static std::span<const float> factors(const WeightTree& tree) {
    return tree.block(0).attention.compressor.norm;
  }
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
  /// FP8, with a float32 scale for each 128 x 128, each array on 256 bytes.
  static std::int64_t fp8_bytes(std::int64_t rows, std::int64_t cols) {
    return aligned(rows * cols) + aligned((rows + 127) / 128 * ((cols + 127) / 128) * 4);
  }

  ThreadPool pool_{1};
  ModelConfig plain_, config_;
};

TEST_F(AddedTensor, IsWantedOfACheckpointAndRead) {
  const test::TemporaryFolder folder;
  test::write_header_only(folder / "without", test::headers_of(plain_, {}), config_text(plain_));
  const std::vector<std::string> sentences = mismatches(config_, Checkpoint(folder / "without"));
  ASSERT_EQ(sentences.size(), 3U);
  EXPECT_NE(sentences[0].find("tensor \"layers.0.attn.added.weight\": missing"), std::string::npos);
  EXPECT_NE(sentences[2].find("tensor \"layers.0.attn.added_factors\": missing"), std::string::npos);

  const auto weights = made_up_weights(config_, 3, pool_, MadeUpBytes::kOfEachTensor);
  const WeightMatrix& read = added(weights->tree());
  EXPECT_EQ(read.format, WeightFormat::kFp8);
  EXPECT_EQ(read.rows, config_.q_dim());
  EXPECT_EQ(read.cols, config_.hidden_size);
  EXPECT_EQ(read.data, weights->checkpoint().at("layers.0.attn.added.weight").bytes.data());
  EXPECT_NE(read.block_scales, nullptr);
  ASSERT_EQ(std::ssize(factors(weights->tree())), config_.hidden_size);
  // Made-up factors are around 1.
  EXPECT_TRUE(std::ranges::all_of(factors(weights->tree()), [](float value) { return value > 0.3F; }));
}

TEST_F(AddedTensor, IsSplitOverRanks) {
  const auto weights = made_up_weights(config_, 3, pool_, MadeUpBytes::kOfEachTensor);
  const ParallelPlan plan = resolved({.num_devices = 2, .tp = 2}, config_);
  const Stage stage = even_stage(config_, 1, 0);
  for (const std::int64_t rank : {0, 1}) {
    const RankLayout layout(config_, plan, stage, 0, rank);
    const RankWeights own(config_, weights->tree(), layout);
    EXPECT_EQ(added(own.tree()).rows, config_.q_dim() / 2);
    EXPECT_EQ(added(own.tree()).data,
              added(weights->tree()).data + rank * config_.q_dim() / 2 * config_.hidden_size);
  }
}

TEST_F(AddedTensor, IsCopiedToADevice) {
  const auto weights = made_up_weights(config_, 3, pool_, MadeUpBytes::kOfEachTensor);
  const DeviceWeights copy(weights->tree(), host_memory());
  const WeightMatrix &from = added(weights->tree()), &to = added(copy.tree());
  EXPECT_NE(to.data, from.data);
  EXPECT_TRUE(std::equal(from.data, from.data + from.size_bytes(), to.data));
  EXPECT_TRUE(std::equal(from.block_scales, from.block_scales + from.num_scales(), to.block_scales));
}

TEST_F(AddedTensor, IsPlannedAndPriced) {
  const std::int64_t rows = config_.q_dim(), cols = config_.hidden_size, of_factors = aligned(4 * cols);
  EXPECT_EQ(device_weight_bytes(config_, {}) - device_weight_bytes(plain_, {}),
            fp8_bytes(rows, cols) + of_factors);
  for (const std::int64_t tp : {1, 2}) {
    const ParallelPlan plan = resolved({.num_devices = tp, .tp = tp}, config_);
    const RankModel with(config_, {}, plan), without(plain_, {}, plan);
    EXPECT_EQ(with.weight_bytes() - without.weight_bytes(), fp8_bytes(rows / tp, cols) + of_factors);
    EXPECT_EQ(added(with.weights()).rows, rows / tp);
    EXPECT_EQ(device_weight_bytes(with.weights()), with.weight_bytes());
  }
}

TEST_F(AddedTensor, IsTrainedAndExported) {
  const test::TemporaryFolder folder;
  TrainConfig config;
  config.model = config_;
  config.data.folder = "models/stories";  // whose tokenizer goes along
  config.adamw.decay_norms = true;
  Parameters<float> weights(config_);
  initialise(weights, config_, 0.5, 1);
  const RowTree tree = bind_rows(config_, weights.table());
  const TensorRow matrix = tree.block(0).attention.indexer.wq_b,
                  factors = tree.block(0).attention.compressor.norm;
  const auto spec = [&](TensorRow row) { return weights.spec(static_cast<std::size_t>(row.index)); };
  ASSERT_EQ(spec(matrix).name, kAdded);
  ASSERT_EQ(spec(factors).name, kAddedFactors);
  EXPECT_TRUE(std::ranges::any_of(weights.values(matrix), [](float value) { return value > 0.5F; }));
  EXPECT_TRUE(std::ranges::all_of(weights.values(factors), [](float value) { return value == 1; }));
  const ParameterGroup of_matrix = parameter_group(spec(matrix), config);
  EXPECT_EQ(of_matrix.rule, UpdateRule::kMuon);
  EXPECT_EQ(of_matrix.matrix_rows, spec(matrix).matrix_rows);
  const ParameterGroup of_factors = parameter_group(spec(factors), config);
  EXPECT_EQ(of_factors.rule, UpdateRule::kAdamW);
  EXPECT_EQ(of_factors.weight_decay, config.adamw.weight_decay);

  Parameters<float> gradients(config_);
  std::ranges::fill(gradients.values(matrix), 1.0F);
  std::ranges::fill(gradients.values(factors), 1.0F);
  const Parameters<float> before = weights;
  Optimiser(config, weights).update(weights, gradients, 0.1, pool_);
  for (const TensorRow row : {matrix, factors})
    EXPECT_FALSE(std::ranges::equal(weights.values(row), before.values(row))) << spec(row).name;

  export_model(folder / "model", config, weights, make_token_tables(config_, 1), false, pool_);
  const ModelWeights reread(config_, Checkpoint(folder / "model"));
  const WeightMatrix& stored = added(reread.tree());
  ASSERT_EQ(stored.rows * stored.cols, std::ssize(weights.values(matrix)));
  EXPECT_NE(stored.block_scales[0], 0.0F);
  EXPECT_NEAR(AddedTensor::factors(reread.tree())[0], weights.values(factors)[0], 0x1p-8);
}

TEST_F(AddedTensor, CountsInTheArithmeticOfAStep) {
  constexpr std::int64_t kTokens = 10;
  TrainingBatch batch;
  batch.tokens.resize(kTokens);
  batch.documents = {{0, kTokens}};
  const auto attention = [&](const ModelConfig& config) {
    return ModelFlops(config).pass(batch, {}).forward[static_cast<std::size_t>(ModelPart::kAttention)];
  };
  EXPECT_EQ(attention(config_) - attention(plain_),
            static_cast<double>(2 * kTokens * config_.q_dim() * config_.hidden_size));
}

}  // namespace
}  // namespace baleen
