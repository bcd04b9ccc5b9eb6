// A layer's attention as a value: the released layers, what follows from a value alone, and what is refused.
#include "model/layer_attention.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/cache_geometry.h"
#include "model/config.h"
#include "model/presets.h"
#include "model/tensor_table.h"

namespace baleen {
namespace {

TEST(LayerAttention, ReleasedLayers) {
  const ModelConfig flash = preset_config("flash");
  const LayerAttention window = flash.attention(0), fine = flash.attention(2), coarse = flash.attention(3);
  EXPECT_EQ(window, (LayerAttention{.window_tokens = 128, .num_heads = 64, .head_dim = 512, .rope_dim = 64}));
  EXPECT_EQ(fine, (LayerAttention{.window_tokens = 128,
                                  .ratio = 4,
                                  .overlaps = true,
                                  .indexed = true,
                                  .top_k = 512,
                                  .num_heads = 64,
                                  .head_dim = 512,
                                  .rope_dim = 64,
                                  .index_heads = 64,
                                  .index_dim = 128,
                                  .rope = RopeKind::kScaled}));
  EXPECT_EQ(coarse, (LayerAttention{.window_tokens = 128,
                                    .ratio = 128,
                                    .num_heads = 64,
                                    .head_dim = 512,
                                    .rope_dim = 64,
                                    .rope = RopeKind::kScaled}));
  EXPECT_EQ(flash.attention(43), window);  // the MTP block
  for (const LayerAttention& shape : {window, fine, coarse}) EXPECT_EQ(why_not_runnable(shape), "");
  EXPECT_EQ(fine.compressor_columns(512), 1024);
  EXPECT_EQ(coarse.compressor_columns(512), 512);
  EXPECT_EQ(fine.num_entries(1023), 255);
  EXPECT_EQ(window.num_entries(1023), 0);
}

/// 61 layers without a window that select 2,048 of all positions.
ModelConfig like_v32() {
  ModelConfig config = preset_config("flash");
  config.sliding_window = 0;
  config.index_topk = 2048;
  config.compress_ratios.assign(config.compress_ratios.size(), 1);
  return config;
}

TEST(LayerAttention, AListOfLayersLikeV32IsAConfig) {
  const ModelConfig config = like_v32();
  const LayerAttention shape = config.attention(5);
  EXPECT_EQ(shape.window_tokens, 0);
  EXPECT_TRUE(shape.indexed);
  EXPECT_FALSE(shape.compresses());
  EXPECT_EQ(shape.top_k, 2048);
  EXPECT_EQ(shape.num_entries(1023), 1023);
  EXPECT_EQ(shape.layout, LatentLayout::kV32);
  EXPECT_EQ(config.layer_kind(5), LayerKind::kCsa);
  // It has an indexer but no compressor, and a key beside every position.
  for (const TensorSpec& tensor : tensor_table(config)) {
    EXPECT_FALSE(tensor.block == 5 && tensor.name.starts_with("layers.5.attn.compressor")) << tensor.name;
  }
  const CacheGeometry geometry = cache_geometry(config, Precision::kReleased);
  EXPECT_EQ(geometry.entries_per_page(5), kPageTokens);
  EXPECT_EQ(geometry.overlap_bytes(5), 0);
}

TEST(LayerAttention, WhatNoOperationHasIsRefusedWithASentence) {
  ModelConfig config = preset_config("flash");
  config.compress_ratios[5] = 1;
  try {
    validate(config, "config.json");
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "config.json: \"compress_ratios\", entry 5: attention over every position's own row (ratio 1, as "
        "DeepSeek-V3.2 has): the operations select from compressed entries; expected 0, 4 or 128");
  }
  EXPECT_EQ(why_not_runnable({.window_tokens = 128, .ratio = 16}), "expected 0, 4 or 128, found 16");
  EXPECT_EQ(why_not_runnable({.window_tokens = 64}),
            "a window of 64 positions; the operations have one of 128");
}

}  // namespace
}  // namespace baleen
