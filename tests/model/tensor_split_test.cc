// How tensors split over ranks: shapes derived by hand from the released geometries, and sums over all ranks.
#include "model/tensor_split.h"

#include <gtest/gtest.h>

#include <map>

#include "model/device_weights.h"
#include "model/presets.h"
#include "model/tensor_table.h"

namespace baleen {
namespace {

using Shape = std::vector<std::int64_t>;

std::map<std::string, Shape> shapes(const ModelConfig& config, const RankShare& share) {
  std::map<std::string, Shape> by_name;
  for (const TensorSpec& spec : rank_table({config, {.end = config.num_hidden_layers}, share}))
    by_name[spec.name] = spec.shape;
  return by_name;
}

TEST(TensorSplit, FlashOverTwoRanks) {
  // 64 heads of 512 in 8 groups, latents of 1,024, 4,096 wide; experts of 2,048.
  auto of = shapes(preset_config("flash"),
                   {.tp = 2, .o_proj_tp = 2, .lm_head_tp = 2, .shared_tp = 2, .moe_tp = 2, .ep = 4});
  EXPECT_EQ(of["layers.2.attn.attn_sink"], (Shape{32}));
  EXPECT_EQ(of["layers.2.attn.wq_a"], (Shape{1024, 4096}));
  EXPECT_EQ(of["layers.2.attn.wq_b"], (Shape{32 * 512, 1024}));
  EXPECT_EQ(of["layers.2.attn.wkv"], (Shape{512, 4096}));
  EXPECT_EQ(of["layers.2.attn.wo_a"], (Shape{4 * 1024, 8 * 512}));
  EXPECT_EQ(of["layers.2.attn.wo_b"], (Shape{4096, 4 * 1024}));
  EXPECT_EQ(of["layers.2.attn.indexer.wq_b"], (Shape{64 * 128, 1024}));
  EXPECT_EQ(of["layers.2.attn.compressor.wkv.weight"], (Shape{1024, 4096}));
  EXPECT_EQ(of["layers.2.ffn.gate.weight"], (Shape{256, 4096}));
  EXPECT_EQ(of["layers.2.ffn.shared_experts.w1"], (Shape{1024, 4096}));
  EXPECT_EQ(of["layers.2.ffn.shared_experts.w2"], (Shape{4096, 1024}));
  EXPECT_EQ(of["layers.2.ffn.experts.0.w3"], (Shape{1024, 4096}));
  EXPECT_EQ(of["layers.2.ffn.experts.0.w2"], (Shape{4096, 1024}));
  EXPECT_EQ(of["embed.weight"], (Shape{129280, 4096}));
  EXPECT_EQ(of["head.weight"], (Shape{64640, 4096}));
  EXPECT_FALSE(of.contains("layers.2.ffn.experts.1.w1"));
}

TEST(TensorSplit, GroupsOfTheOutputProjectionStayWhole) {
  auto of = shapes(preset_config("flash"), {.tp = 16, .o_proj_tp = 8});
  EXPECT_EQ(of["layers.0.attn.wo_a"], (Shape{1024, 8 * 512}));
  EXPECT_EQ(of["layers.0.attn.wo_b"], (Shape{4096, 1024}));
}

TEST(TensorSplit, TheVocabularyNeedNotDivide) {
  EXPECT_EQ(rank_shape({129280, 8}, TensorSplit::kVocabulary, {.lm_head_tp = 3}), (Shape{43094, 8}));
}

TEST(TensorSplit, APipelineStageHasNeitherEndsThatAreNotItsOwn) {
  const ModelConfig config = preset_config("tiny-flash");
  const auto middle = shapes(config, {.embedding = false, .head = false});
  for (const char* name : {"embed.weight", "head.weight", "norm.weight", "hc_head_fn"}) {
    EXPECT_FALSE(middle.contains(name)) << name;
    EXPECT_TRUE(shapes(config, {}).contains(name)) << name;
  }
}

TEST(TensorSplit, ShapesOfTheWholeAreTheTables) {
  for (const char* preset : {"flash", "pro", "tiny-flash", "tiny-real-heads", "bench-1b"}) {
    const ModelConfig config = preset_config(preset);
    const auto rank = shapes(config, {});
    std::int64_t listed = 0;
    for (const TensorSpec& spec : tensor_table(config)) {
      const auto found = rank.find(spec.name);
      if (found == rank.end()) continue;  // an expert after the first
      ++listed;
      EXPECT_EQ(found->second, spec.shape) << spec.name;
    }
    EXPECT_EQ(listed, std::ssize(rank));
    // Bytes on a device follow from the table alone; a rank that has everything takes as much.
    EXPECT_EQ(device_weight_bytes(config, {}),
              device_weight_bytes({config, {.end = config.num_hidden_layers}, {.ep = 1}}, {}));
  }
}

}  // namespace
}  // namespace baleen
