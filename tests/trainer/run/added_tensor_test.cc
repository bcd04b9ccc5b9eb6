// A tensor that a test adds to the table is read, checked, split, copied, planned, priced, trained and
// exported, though no code but its row knows it. Its place is one that sliding-window layers have no use for.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/device_weights.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model/weights.h"
#include "model_files/made_up.h"
#include "simulator/graph/rank_model.h"
#include "tests/support/header_only.h"
#include "tests/support/temporary_folder.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/parameter_groups.h"
#include "trainer/run/export.h"

namespace baleen {
namespace {

constexpr const char* kAdded = "layers.0.attn.added";

const ModelFamily kFamilyWithMore{.tensors = [](const RankConfig& rank, ExpertRows experts) {
  std::vector<TensorSpec> table = kDeepSeekV4.tensors(rank, experts);
  const TensorSplit split = TensorSplit::kHeads;
  const std::vector<std::int64_t> shape = {rank.model().q_dim(), rank.model().hidden_size};
  table.push_back({.name = kAdded,
                   .shape = rank_shape(shape, split, rank.share()),
                   .storage = Storage::kDense,
                   .role = TensorRole::kAttention,
                   .block = 0,
                   .split = split,
                   .place = TensorPlace::of(
                       [](auto& tree, std::int64_t block, std::int64_t) -> auto& {
                         return tree.blocks[static_cast<std::size_t>(block)].attention.indexer;
                       },
                       [](auto& indexer) -> auto& { return indexer.wq_b; })});
  return table;
}};

class AddedTensor : public testing::Test {
 protected:
  AddedTensor() : plain_(preset_config("tiny-flash")), config_(plain_) {
    config_.family = &kFamilyWithMore;
    EXPECT_FALSE(config_.attention(0).indexed);
  }
  static const WeightMatrix& added(const WeightTree& tree) { return tree.block(0).attention.indexer.wq_b; }
  /// FP8, with a float32 scale for each 128 x 128, each array on 256 bytes.
  static std::int64_t fp8_bytes(std::int64_t rows, std::int64_t cols) {
    const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    return aligned(rows * cols) + aligned((rows + 127) / 128 * ((cols + 127) / 128) * 4);
  }

  ThreadPool pool_{1};
  ModelConfig plain_, config_;
};

TEST_F(AddedTensor, IsWantedOfACheckpointAndRead) {
  const test::TemporaryFolder folder;
  test::write_header_only(folder / "without", test::headers_of(plain_, {}), config_text(plain_));
  const std::vector<std::string> sentences = mismatches(config_, Checkpoint(folder / "without"));
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_NE(sentences[0].find("tensor \"layers.0.attn.added.weight\": missing"), std::string::npos);

  const auto weights = made_up_weights(config_, 3, pool_, MadeUpBytes::kOfEachTensor);
  const WeightMatrix& read = added(weights->tree());
  EXPECT_EQ(read.format, WeightFormat::kFp8);
  EXPECT_EQ(read.rows, config_.q_dim());
  EXPECT_EQ(read.cols, config_.hidden_size);
  EXPECT_EQ(read.data, weights->checkpoint().at("layers.0.attn.added.weight").bytes.data());
  EXPECT_NE(read.block_scales, nullptr);
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
  const std::int64_t rows = config_.q_dim(), cols = config_.hidden_size;
  EXPECT_EQ(device_weight_bytes(config_, {}) - device_weight_bytes(plain_, {}), fp8_bytes(rows, cols));
  for (const std::int64_t tp : {1, 2}) {
    const ParallelPlan plan = resolved({.num_devices = tp, .tp = tp}, config_);
    const RankModel with(config_, {}, plan), without(plain_, {}, plan);
    EXPECT_EQ(with.weight_bytes() - without.weight_bytes(), fp8_bytes(rows / tp, cols));
    EXPECT_EQ(added(with.weights()).rows, rows / tp);
    EXPECT_EQ(device_weight_bytes(with.weights()), with.weight_bytes());
  }
}

TEST_F(AddedTensor, IsTrainedAndExported) {
  const test::TemporaryFolder folder;
  TrainConfig config;
  config.model = config_;
  config.data.folder = "models/stories";  // whose tokenizer goes along
  Parameters<float> weights(config_);
  initialise(weights, config_, 0.5, 1);
  const std::size_t at = weights.size() - 1;
  ASSERT_EQ(weights.spec(at).name, kAdded);
  EXPECT_TRUE(std::ranges::any_of(weights.values(at), [](float value) { return value > 0.5F; }));
  EXPECT_EQ(parameter_group(weights.spec(at), config).rule, UpdateRule::kMuon);

  export_model(folder / "model", config, weights, make_hash_tables(config_, 1), false, pool_);
  const ModelWeights reread(config_, Checkpoint(folder / "model"));
  const WeightMatrix& stored = added(reread.tree());
  ASSERT_EQ(stored.rows * stored.cols, std::ssize(weights.values(at)));
  EXPECT_NE(stored.block_scales[0], 0.0F);
}

}  // namespace
}  // namespace baleen
