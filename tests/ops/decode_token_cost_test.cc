// One token through all operations of Flash and of Pro: what they read and compute adds up to the
// specification's known answers. The sequence is written down here from the specification, apart from the
// model's code.
#include <gtest/gtest.h>

#include <vector>

#include "ops/compressor/compressor.h"
#include "ops/experts/experts.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/hc_head/hc_head.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/indexer/indexer.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/linear.h"
#include "ops/lm_head/lm_head.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/route/route.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

using test::unread_bf16;
using test::unread_f32;
using test::unread_span;
using test::unread_weight;

constexpr std::int64_t kHeadDim = 512, kIndexDim = 128, kIndexHeads = 64, kRotary = 64, kWindow = 128;
constexpr std::int64_t kStreams = 4, kSelectedExperts = 6, kGroupRank = 1024, kVocab = 129280;
constexpr std::int64_t kHashLayers = 3;
constexpr LatentFormat kLatent{kHeadDim - kRotary, kRotary};

struct Geometry {
  std::int64_t width, heads, query_rank, groups, top_k, experts, inner;
  std::int64_t num_window_layers, num_csa_layers, num_hca_layers;

  [[nodiscard]] std::int64_t num_layers() const {
    return num_window_layers + num_csa_layers + num_hca_layers;
  }
};
constexpr Geometry kFlash{4096, 64, 1024, 8, 512, 256, 2048, 2, 21, 20};
constexpr Geometry kPro{7168, 128, 1536, 16, 1024, 384, 3072, 0, 30, 31};

/// The token after `length` others.
class Token {
 public:
  Token(const Geometry& geometry, std::int64_t length) : g_(geometry), batch_({{length, 1}}) {
    for (std::int64_t layer = 0; layer < g_.num_layers(); ++layer) {
      const int ratio = layer < g_.num_window_layers                       ? 0
                        : layer < g_.num_window_layers + g_.num_csa_layers ? 4
                                                                           : 128;
      hyper_connections();
      attention(ratio);
      hyper_connections();
      moe(layer < kHashLayers);
    }
    const HcHeadArgs leave{
        .streams = streams(), .weights = hc_weights(kStreams, 1), .y = unread_bf16<2>({1, g_.width})};
    total_ += hc_head_cost(leave);
    norm(g_.width);
    const WeightMatrix head = unread_weight(WeightFormat::kBF16, kVocab, g_.width);
    total_ += lm_head_cost({.x = leave.y, .weight = &head, .logits = unread_f32<2>({1, kVocab})});
  }
  [[nodiscard]] const OpCost& total() const { return total_; }

 private:
  [[nodiscard]] Activations<3> streams() const { return unread_bf16<3>({1, kStreams, g_.width}); }
  [[nodiscard]] HcWeights hc_weights(std::int64_t num_mixes, std::int64_t num_scales) const {
    return {{test::nowhere<const float>(), {num_mixes, kStreams * g_.width}},
            unread_span<const float>(num_mixes),
            unread_span<const float>(num_scales)};
  }
  void norm(std::int64_t width) {
    total_ += rms_norm_cost({.x = unread_bf16<2>({1, width}),
                             .weight = unread_span<const float>(width),
                             .y = unread_bf16<2>({1, width})});
  }
  void linear(WeightFormat format, std::int64_t num_outputs, std::int64_t num_inputs) {
    const WeightMatrix weight = unread_weight(format, num_outputs, num_inputs);
    const LinearOutput output{&weight, unread_bf16<2>({1, num_outputs})};
    total_ += linear_cost({.x = unread_bf16<2>({1, num_inputs}), .outputs = {&output, 1}});
  }

  void hyper_connections() {
    const HcPreArgs pre{.streams = streams(),
                        .weights = hc_weights((2 + kStreams) * kStreams, 3),
                        .u = unread_bf16<2>({1, g_.width}),
                        .post = unread_f32<2>({1, kStreams}),
                        .comb = unread_f32<3>({1, kStreams, kStreams})};
    total_ += hc_pre_cost(pre);
    norm(g_.width);
    total_ += hc_post_cost({.f = pre.u, .post = pre.post, .comb = pre.comb, .streams = streams()});
  }

  void compressor(int ratio, std::int64_t head_dim, LatentPool latent, IndexKeyPool index_key) {
    const std::int64_t width = ratio == 4 ? 2 * head_dim : head_dim;
    linear(WeightFormat::kBF16, width, g_.width);
    linear(WeightFormat::kBF16, width, g_.width);
    total_ += compressor_cost({.kv = unread_f32<2>({1, width}),
                               .gate = unread_f32<2>({1, width}),
                               .ape = {test::nowhere<const float>(), {ratio, width}},
                               .norm_weight = unread_span<const float>(head_dim),
                               .frequencies = unread_span<const float>(kRotary / 2),
                               .ratio = ratio,
                               .batch = batch_.batch(),
                               .latent = latent,
                               .index_key = index_key});
  }

  void attention(int ratio) {
    const std::int64_t q_dim = g_.heads * kHeadDim;
    linear(WeightFormat::kFp8, g_.query_rank, g_.width);
    norm(g_.query_rank);
    linear(WeightFormat::kFp8, q_dim, g_.query_rank);
    linear(WeightFormat::kFp8, kHeadDim, g_.width);
    const auto angles = unread_f32<2>({1, kRotary / 2});
    const LatentPool window{.format = kLatent};
    total_ += kv_store_cost({.kv = unread_bf16<2>({1, kHeadDim}),
                             .weight = unread_span<const float>(kHeadDim),
                             .cosine = angles,
                             .sine = angles,
                             .batch = batch_.batch(),
                             .window = window});
    const LatentPool entries{.base = test::nowhere<std::byte>(), .format = kLatent};
    const IndexKeyPool keys{.base = test::nowhere<std::byte>(), .format = {kIndexDim}};
    if (ratio != 0) compressor(ratio, kHeadDim, entries, {});
    const View<std::int32_t, 2> selected{test::nowhere<std::int32_t>(), {1, g_.top_k}};
    if (ratio == 4) {
      compressor(ratio, kIndexDim, {}, keys);
      linear(WeightFormat::kFp8, kIndexHeads * kIndexDim, g_.query_rank);
      linear(WeightFormat::kBF16, kIndexHeads, g_.width);
      total_ += indexer_cost({.q = unread_bf16<3>({1, kIndexHeads, kIndexDim}),
                              .head_weights = unread_bf16<2>({1, kIndexHeads}),
                              .cosine = angles,
                              .sine = angles,
                              .batch = batch_.batch(),
                              .keys = keys,
                              .selected = selected});
    }
    total_ += sparse_attention_cost({.q = unread_bf16<3>({1, g_.heads, kHeadDim}),
                                     .batch = batch_.batch(),
                                     .window = window,
                                     .compressed = entries,
                                     .ratio = ratio,
                                     .selected = ratio == 4 ? selected : View<std::int32_t, 2>(),
                                     .sink = unread_span<const float>(g_.heads),
                                     .window_tokens = kWindow,
                                     .out = unread_bf16<3>({1, g_.heads, kHeadDim})});
    const std::int64_t grouped = g_.groups * kGroupRank;
    const WeightMatrix wo_a = unread_weight(WeightFormat::kFp8, grouped, q_dim / g_.groups);
    total_ += grouped_linear_cost({.x = unread_bf16<3>({1, g_.groups, q_dim / g_.groups}),
                                   .weight = &wo_a,
                                   .y = unread_bf16<2>({1, grouped})});
    linear(WeightFormat::kFp8, g_.width, grouped);
  }

  [[nodiscard]] ExpertWeights expert(WeightFormat format) const {
    return {.w1 = unread_weight(format, g_.inner, g_.width),
            .w2 = unread_weight(format, g_.width, g_.inner),
            .w3 = unread_weight(format, g_.inner, g_.width)};
  }
  void moe(bool by_hash) {
    linear(WeightFormat::kBF16, g_.experts, g_.width);
    RouteArgs route{.logits = unread_f32<2>({1, g_.experts}),
                    .ids = {test::nowhere<std::int32_t>(), {1, kSelectedExperts}},
                    .weights = unread_f32<2>({1, kSelectedExperts})};
    if (by_hash) {
      route.hash_table = {test::nowhere<const std::int32_t>(), {kVocab, kSelectedExperts}};
      route.tokens = unread_span<const TokenId>(1);
    } else {
      route.bias = unread_span<const float>(g_.experts);
    }
    total_ += route_cost(route);
    const std::vector<ExpertWeights> routed(static_cast<std::size_t>(g_.experts), expert(WeightFormat::kFp4));
    const ExpertWeights shared = expert(WeightFormat::kFp8);
    total_ += expected_experts_cost({.x = unread_bf16<2>({1, g_.width}),
                                     .ids = route.ids,
                                     .weights = route.weights,
                                     .routed = routed,
                                     .shared = &shared,
                                     .out = unread_bf16<2>({1, g_.width})});
  }

  const Geometry& g_;
  test::UnreadBatch batch_;
  OpCost total_;
};

double fp8_equivalent(const OpCost& cost) {
  const auto flops = [&](MathFormat format) { return cost.flops[static_cast<std::size_t>(format)]; };
  return 2 * (flops(MathFormat::kF32) + flops(MathFormat::kBF16)) + flops(MathFormat::kFp8) +
         flops(MathFormat::kFp4) / 2;
}

constexpr std::int64_t kMillion = 1 << 20;

TEST(DecodeTokenCost, ReadsTheWeightsOfOneToken) {
  EXPECT_EQ(Token(kFlash, 0).total().weight_bytes, 11'217'572'060);
  EXPECT_EQ(Token(kPro, 0).total().weight_bytes, 39'666'603'980);
}

TEST(DecodeTokenCost, ReadsTheCache) {
  const auto megabytes = [](const Geometry& geometry, std::int64_t context) {
    return 1e-6 * Token(geometry, context - 1).total().cache_bytes;
  };
  EXPECT_NEAR(megabytes(kFlash, 4096), 11.33, 0.005);
  EXPECT_NEAR(megabytes(kFlash, 65536), 38.87, 0.005);
  EXPECT_NEAR(megabytes(kFlash, kMillion), 479.5, 0.05);
  EXPECT_NEAR(megabytes(kPro, 4096), 25.17, 0.005);
  EXPECT_NEAR(megabytes(kPro, 65536), 65.19, 0.005);
  EXPECT_NEAR(megabytes(kPro, kMillion), 705.6, 0.05);
}

TEST(DecodeTokenCost, ComputesAtAMillion) {
  const OpCost flash = Token(kFlash, kMillion - 1).total(), pro = Token(kPro, kMillion - 1).total();
  EXPECT_NEAR(1e-9 * flash.matrix_flops(), 140.3, 0.05);
  EXPECT_NEAR(1e-9 * flash.flops[static_cast<std::size_t>(MathFormat::kFp4)], 90.2, 0.05);
  EXPECT_NEAR(1e-9 * pro.matrix_flops(), 303.2, 0.05);
  EXPECT_NEAR(1e-9 * fp8_equivalent(flash), 123.6, 0.05);
  EXPECT_NEAR(1e-9 * fp8_equivalent(pro), 327.6, 0.05);
}

}  // namespace
}  // namespace baleen
