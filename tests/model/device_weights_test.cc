// What of a model lies where on a device.
#include "model/device_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/support/counted_memory.h"

namespace baleen {
namespace {

class DeviceWeightsOf : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] const ModelConfig& config() const { return weights_->config(); }
  [[nodiscard]] const WeightTree& tree() const { return weights_->tree(); }

  ThreadPool pool_{1};
  std::unique_ptr<ModelWeights> weights_ =
      made_up_weights(preset_config(GetParam()), 1, pool_, MadeUpBytes::kOfEachTensor);
};

TEST_P(DeviceWeightsOf, HaveTheEmbeddingInAMemoryOfItsOwn) {
  test::CountedMemory device, other;
  const DeviceWeights weights(tree(), device, kAllBlocks, &other);
  const std::int64_t bytes = tree().embedding.size() * std::int64_t{sizeof(Bf16Bits)};
  ASSERT_GT(bytes, 0);
  EXPECT_EQ(other.num_bytes(), bytes);
  EXPECT_EQ(device_embedding_bytes(config()), bytes);
  EXPECT_EQ(device.num_bytes(), device_weight_bytes(tree()) - bytes);
  const View<const Bf16Bits, 2>& copy = weights.tree().embedding;
  EXPECT_EQ(copy.extents(), tree().embedding.extents());
  EXPECT_NE(copy.data(), tree().embedding.data());
  EXPECT_EQ(std::memcmp(copy.data(), tree().embedding.data(), static_cast<std::size_t>(bytes)), 0);
}

/// Those of a draft head's blocks alone, which may have fewer than layers.
TEST_P(DeviceWeightsOf, HaveTheExpertsOfSomeBlocks) {
  const std::int64_t num_layers = config().num_hidden_layers;
  const BlockRange drafts{num_layers, config().num_blocks()};
  test::CountedMemory device;
  const DeviceWeights weights(tree(), device, drafts);
  EXPECT_EQ(device.num_bytes(), device_weight_bytes(tree(), drafts));
  std::int64_t num_kept = 0;
  for (std::int64_t block = 0; block < config().num_blocks(); ++block) {
    const std::vector<ExpertWeights>& routed = weights.tree().block(block).moe.routed;
    EXPECT_EQ(std::ssize(routed), drafts.has(block) ? config().num_routed_experts(block) : 0) << block;
    for (std::size_t i = 0; i < routed.size(); ++i, ++num_kept) {
      const WeightMatrix &copy = routed[i].w2, &from = tree().block(block).moe.routed[i].w2;
      EXPECT_NE(copy.data, from.data);
      EXPECT_EQ(std::memcmp(copy.data, from.data, static_cast<std::size_t>(from.size_bytes())), 0);
    }
  }
  EXPECT_EQ(num_kept, (config().num_blocks() - num_layers) * config().num_routed_experts(num_layers));
  EXPECT_EQ(device_weight_bytes(config(), {.dense = config().dense_format}, drafts),
            device_weight_bytes(tree(), drafts));
}

INSTANTIATE_TEST_SUITE_P(Presets, DeviceWeightsOf, testing::Values("tiny-flash", "tiny-v41"),
                         [](const auto& param) {
                           std::string name(param.param);
                           return name.replace(name.find('-'), 1, "_");
                         });

}  // namespace
}  // namespace baleen
