// Costs of backwards, by counts that are written out by hand from the formulas of the training
// specification, 11.
#include <gtest/gtest.h>

#include "ops/compressor/compressor_backward.h"
#include "ops/dense_attention/dense_attention.h"
#include "ops/indexer_loss/index_scores.h"
#include "ops/indexer_loss/indexer_loss.h"
#include "ops/operations.h"
#include "ops/route/sequence_balance.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

using test::nowhere;
using test::unread_bf16;
using test::unread_f32;
using test::unread_span;
using test::unread_weight;

constexpr std::int64_t kNumTokens = 3;

/// A gradient of a parameter is read and written in float32.
constexpr double kGradient = 8;

double flops_of(const OpCost& cost, MathFormat format) {
  return cost.flops[static_cast<std::size_t>(format)];
}

TEST(BackwardCost, Linear) {
  const WeightMatrix first = unread_weight(WeightFormat::kFp8, 256, 128);
  const WeightMatrix second = unread_weight(WeightFormat::kBF16, 64, 128);
  const LinearOutput outputs[] = {{&first, unread_bf16<2>({kNumTokens, 256}), false, "a"},
                                  {&second, unread_bf16<2>({kNumTokens, 64}), false, "b", false}};
  const LinearArgs args{.x = unread_bf16<2>({kNumTokens, 128}), .outputs = outputs};
  const OpCost cost = linear_backward_cost(args);
  EXPECT_EQ(flops_of(cost, MathFormat::kFp8), 2 * 2 * kNumTokens * 256 * 128);
  EXPECT_EQ(flops_of(cost, MathFormat::kBF16), 2 * kNumTokens * 64 * 128)
      << "its gradient ends at the weight";
  EXPECT_EQ(cost.weight_bytes, 256 * 128 + 2);
  // x and both results' gradients; the gradient of x; those of the weights.
  EXPECT_EQ(cost.total_bytes(), 2 * kNumTokens * (128 + 256 + 64) + 2 * kNumTokens * 128 + 256 * 128 + 2 +
                                    kGradient * (256 + 64) * 128);
}

TEST(BackwardCost, GroupedLinearAndHead) {
  const WeightMatrix grouped = unread_weight(WeightFormat::kBF16, 2 * 128, 512);
  const OpCost cost = grouped_linear_backward_cost({.x = unread_bf16<3>({kNumTokens, 2, 512}),
                                                    .weight = &grouped,
                                                    .y = unread_bf16<2>({kNumTokens, 2 * 128})});
  EXPECT_EQ(cost.matrix_flops(), 2 * 2 * kNumTokens * 2 * 128 * 512);
  EXPECT_EQ(cost.write_bytes, 2 * kNumTokens * 2 * 512 + 4 * 2 * 128 * 512);
  const WeightMatrix head = unread_weight(WeightFormat::kBF16, 1000, 128);
  const OpCost of_head = lm_head_backward_cost(
      {.x = unread_bf16<2>({kNumTokens, 128}), .weight = &head, .logits = unread_f32<2>({kNumTokens, 1000})});
  EXPECT_EQ(of_head.matrix_flops(), 2 * 2 * kNumTokens * 1000 * 128);
  EXPECT_EQ(of_head.scalar_ops, 5 * kNumTokens * 1000);
  EXPECT_EQ(of_head.read_bytes, 2 * kNumTokens * 128 + 4 * kNumTokens * 1000 + (2 + 4) * 1000 * 128);
}

TEST(BackwardCost, NormsAndRotations) {
  const OpCost norm = rms_norm_backward_cost({.x = unread_bf16<2>({kNumTokens, 128}),
                                              .weight = unread_span<const float>(128),
                                              .y = unread_bf16<2>({kNumTokens, 128})});
  EXPECT_EQ(norm.scalar_ops, 11 * kNumTokens * 128);
  EXPECT_EQ(norm.total_bytes(), 3 * 2 * kNumTokens * 128 + 2 * 128 + kGradient * 128);
  const OpCost plain = rms_norm_backward_cost(
      {.x = unread_bf16<2>({kNumTokens, 128}), .y = unread_bf16<2>({kNumTokens, 128})});
  EXPECT_EQ(plain.scalar_ops, 7 * kNumTokens * 128);
  const RopeArgs rotation{.x = unread_bf16<3>({kNumTokens, 4, 128}),
                          .cosine = unread_f32<2>({kNumTokens, 32})};
  EXPECT_EQ(rope_backward_cost(rotation).scalar_ops, 6 * kNumTokens * 4 * 32);
  const KvStoreArgs store{.kv = unread_bf16<2>({kNumTokens, 512}),
                          .weight = unread_span<const float>(512),
                          .window = {.rows_per_page = 256, .format = {448, 64}}};
  EXPECT_EQ(kv_store_backward_cost(store).scalar_ops, kNumTokens * (11 * 512 + 6 * 32));
}

TEST(BackwardCost, Mixing) {
  constexpr std::int64_t kNumStreams = 4, kWidth = 128, kMixes = 24;
  const HcPreArgs pre{.streams = unread_bf16<3>({kNumTokens, kNumStreams, kWidth}),
                      .weights = {{nowhere<const float>(), {kMixes, kNumStreams * kWidth}},
                                  unread_span<const float>(kMixes),
                                  unread_span<const float>(3)},
                      .sinkhorn_iterations = 20,
                      .u = unread_bf16<2>({kNumTokens, kWidth}),
                      .post = unread_f32<2>({kNumTokens, kNumStreams}),
                      .comb = unread_f32<3>({kNumTokens, kNumStreams, kNumStreams})};
  const OpCost cost = hc_pre_backward_cost(pre);
  EXPECT_EQ(flops_of(cost, MathFormat::kF32), 2 * 2 * kNumTokens * kNumStreams * kWidth * kMixes);
  // Sinkhorn of 4 x 4, forward: softmax 88, 39 half steps of 32; backward: 39 of 80, softmax 64.
  constexpr double kSinkhorn = 88 + 39 * 32 + 39 * 80 + 64;
  EXPECT_EQ(cost.scalar_ops, kNumTokens * (8 * kNumStreams * kWidth + 8 * kMixes + 4 * kNumStreams +
                                           3 * kNumStreams + 4 * kNumStreams + 2 * 16 + kSinkhorn));
  constexpr double kParameters = kMixes * kNumStreams * kWidth + kMixes + 3;
  EXPECT_EQ(cost.total_bytes(), kNumTokens * (2 * 2 * kNumStreams * kWidth + 4 * kMixes + 2 * kWidth +
                                              4 * (2 * kNumStreams + kNumStreams * kNumStreams)) +
                                    (4 + kGradient) * kParameters);
  const HcHeadArgs head{.streams = pre.streams, .weights = pre.weights, .y = pre.u};
  EXPECT_EQ(hc_head_backward_cost(head).scalar_ops,
            kNumTokens * (8 * kNumStreams * kWidth + 8 * kMixes + 7 * kNumStreams));

  const HcPostArgs post{.f = unread_bf16<2>({kNumTokens, kWidth}),
                        .post = pre.post,
                        .comb = pre.comb,
                        .streams = unread_bf16<3>({kNumTokens, kNumStreams, kWidth})};
  const OpCost leave = hc_post_backward_cost(post);
  // Of each value of the result's gradient: df and dpost a multiply-add, dX and dcomb one for every stream.
  EXPECT_EQ(leave.scalar_ops, kNumTokens * kNumStreams * kWidth * (2 + 2 + kNumStreams * (2 + 2)));
  EXPECT_EQ(leave.total_bytes(),
            kNumTokens * (2 * (2 * kWidth + 4 * 20 + 2 * kNumStreams * kWidth) + 2 * kNumStreams * kWidth));
}

TEST(BackwardCost, SparseAttentionHasFiveProductsForTwo) {
  constexpr std::int64_t kHeads = 64, kLength = 300;
  const test::UnreadBatch batch({{0, kLength}});
  const SparseAttentionArgs args{.q = unread_bf16<3>({kLength, kHeads, 512}),
                                 .batch = batch.batch(),
                                 .window = {.rows_per_page = 256, .format = {448, 64}},
                                 .sink = unread_span<const float>(kHeads),
                                 .out = unread_bf16<3>({kLength, kHeads, 512})};
  constexpr double kEntries = 128 * 129 / 2 + 172 * 128;
  const OpCost cost = sparse_attention_backward_cost(args);
  EXPECT_EQ(flops_of(cost, MathFormat::kBF16), 5 * 2 * 512 * kHeads * kEntries);
  EXPECT_EQ(cost.matrix_flops(), 2.5 * sparse_attention_cost(args).matrix_flops());
  EXPECT_EQ(cost.scalar_ops, kHeads * (6 * kEntries + kLength * (2 * 512 + 4)));
  EXPECT_EQ(cost.write_bytes, 2 * kLength * kHeads * 512 + 4 * 512 * kLength + 4 * kHeads);
}

TEST(BackwardCost, CompressorOfOneBlock) {
  const test::UnreadBatch batch({{0, 8}});  // two entries: of 4 rows and of 8
  const CompressorArgs args{.kv = unread_f32<2>({8, 1024}),
                            .gate = unread_f32<2>({8, 1024}),
                            .ape = {nowhere<const float>(), {4, 1024}},
                            .norm_weight = unread_span<const float>(512),
                            .frequencies = unread_span<const float>(32),
                            .ratio = 4,
                            .batch = batch.batch(),
                            .latent = {.base = nowhere<std::byte>(), .format = {448, 64}}};
  const OpCost cost = compressor_backward_cost(args);
  EXPECT_EQ(cost.scalar_ops, 8 * 1024 + 11 * 512 * 12 + 2 * (11 * 512 + 6 * 32));
  EXPECT_EQ(cost.write_bytes, 2 * 4 * 8 * 1024 + 4 * (4 * 1024 + 512));
  const PoolingValues<float> pooling{.tokens = 8, .ratio = 4, .width = 512, .overlaps = true};
  EXPECT_EQ(pooling_backward_cost(pooling).scalar_ops, 8 * 1024 + 11 * 512 * 12);
  EXPECT_EQ(pooling_cost(pooling).scalar_ops, 8 * 1024 + 6 * 512 * 12);
}

TEST(BackwardCost, AnIndexerLearnsFromSelectedEntries) {
  constexpr std::int64_t kHeads = 64, kTopK = 8, kLength = 100;
  const test::UnreadBatch batch({{0, kLength}});
  const IndexerArgs args{.q = unread_bf16<3>({kLength, kHeads, 128}),
                         .head_weights = unread_bf16<2>({kLength, kHeads}),
                         .cosine = unread_f32<2>({kLength, 32}),
                         .sine = unread_f32<2>({kLength, 32}),
                         .batch = batch.batch(),
                         .keys = {.format = {128}},
                         .selected = {nowhere<std::int32_t>(), {kLength, kTopK}}};
  double selected = 0;
  for (std::int64_t t = 0; t < kLength; ++t)
    selected += static_cast<double>(std::min<std::int64_t>((t + 1) / 4, kTopK));
  const OpCost cost = indexer_backward_cost(args);
  EXPECT_EQ(cost.matrix_flops(), 3 * 2 * kHeads * 128 * selected);
  EXPECT_EQ(cost.scalar_ops, kLength * kHeads * (6 * 32 + 7 * 128) + (11 + 5 * kHeads) * selected);
}

TEST(BackwardCost, Experts) {
  constexpr std::int64_t kWidth = 128, kInner = 64, kExperts = 4;
  const ExpertWeights expert{.w1 = unread_weight(WeightFormat::kFp4, kInner, kWidth),
                             .w2 = unread_weight(WeightFormat::kFp4, kWidth, kInner),
                             .w3 = unread_weight(WeightFormat::kFp4, kInner, kWidth)};
  const std::vector<ExpertWeights> routed(kExperts, expert);
  const std::vector<std::int32_t> ids{0, 1, 0, 2, 0, -1};  // five assignments to three experts
  const ExpertsArgs args{.x = unread_bf16<2>({kNumTokens, kWidth}),
                         .ids = {ids.data(), {kNumTokens, 2}},
                         .weights = unread_f32<2>({kNumTokens, 2}),
                         .routed = routed,
                         .shared = &expert,
                         .out = unread_bf16<2>({kNumTokens, kWidth})};
  const OpCost cost = experts_backward_cost(args);
  constexpr double kRows = 5 + kNumTokens;
  EXPECT_EQ(flops_of(cost, MathFormat::kFp8), 2 * 2 * kRows * 3 * kWidth * kInner);
  EXPECT_EQ(cost.matrix_flops(), 2 * experts_cost(args).matrix_flops());
  EXPECT_EQ(cost.scalar_ops, 20 * kRows * kInner + kRows * kWidth);
  EXPECT_EQ(cost.weight_bytes, 4 * 3 * (kWidth * kInner / 2 + kWidth * kInner / 32));
  // g and v; x and the result's gradient, its own; a routing weight's; the sum over a token's rows.
  EXPECT_EQ(cost.total_bytes() - cost.weight_bytes, kRows * 2 * 2 * kInner + kRows * 3 * 2 * kWidth + 5 * 4 +
                                                        (kRows + kNumTokens) * 2 * kWidth +
                                                        4 * kGradient * 3 * kWidth * kInner);
}

TEST(BackwardCost, RouterEmbeddingAndMtp) {
  const OpCost route = route_backward_cost({.logits = unread_f32<2>({kNumTokens, 256}),
                                            .ids = {nowhere<std::int32_t>(), {kNumTokens, 6}},
                                            .weights = unread_f32<2>({kNumTokens, 6})});
  EXPECT_EQ(route.scalar_ops, 12 * kNumTokens * 6) << "of chosen experts alone";
  EXPECT_EQ(route.write_bytes, 4 * kNumTokens * 256);
  const OpCost embed = embed_backward_cost({.tokens = unread_span<const TokenId>(kNumTokens),
                                            .table = {nowhere<const Bf16Bits>(), {1000, 128}},
                                            .out = unread_bf16<3>({kNumTokens, 4, 128})});
  EXPECT_EQ(embed.scalar_ops, kNumTokens * 4 * 128);
  EXPECT_EQ(embed.write_bytes, 4 * kNumTokens * 128);
  const OpCost mtp = mtp_combine_backward_cost(
      {.embedded = unread_bf16<2>({kNumTokens, 128}), .streams = unread_bf16<3>({kNumTokens, 4, 128})});
  EXPECT_EQ(mtp.scalar_ops, kNumTokens * 4 * 128);
  EXPECT_EQ(mtp.total_bytes(), 2 * kNumTokens * 5 * 128);
}

TEST(BackwardCost, OfTheTrainersOwnOperations) {
  // Four tiles of queries, which see 9 rows of a window of 10 before their own, and 8, 16, 24 and 25 entries.
  const DenseAttentionValues<float> attention{
      .tokens = 100, .heads = 2, .width = 8, .window = 10, .entries = 25};
  constexpr double kScores = 2 * (32 * (32 + 8) + 32 * (41 + 16) + 32 * (41 + 24) + 4 * (13 + 25));
  EXPECT_EQ(dense_attention_cost(attention, 4).matrix_flops(), 2 * 2 * 8 * kScores);
  EXPECT_EQ(dense_attention_backward_cost(attention, 4).matrix_flops(), 5 * 2 * 8 * kScores);
  EXPECT_EQ(dense_attention_backward_cost(attention, 4).scalar_ops, 5 * kScores + 200 * (2 * 8 + 4));
  const IndexScoreValues<float> scores{.tokens = 100, .heads = 2, .width = 8, .entries = 25, .ratio = 4};
  constexpr double kProducts = 2 * (64 * 16 + 36 * 25);
  EXPECT_EQ(index_scores_cost(scores).matrix_flops(), 2 * 8 * kProducts);
  EXPECT_EQ(index_scores_backward_cost(scores).matrix_flops(), 3 * 2 * 8 * kProducts);
  EXPECT_EQ(indexer_loss_backward_cost({.tokens = 100, .entries = 25}).scalar_ops, 10 * 2500);
  EXPECT_EQ(sequence_balance_backward_cost({.tokens = 100, .experts = 8, .k = 2}).scalar_ops, 15 * 800);
}

TEST(BackwardCost, ChoicesHaveNone) {
  const DeviceTraits traits{.shares_host_memory = true};
  const SampleArgs sample{.logits = unread_f32<2>({kNumTokens, 1000})};
  EXPECT_GT(kOperationInfo<ops::Sample>.cost(&sample, traits).read_bytes, 0);
  EXPECT_EQ(kOperationInfo<ops::Sample>.backward_cost(&sample, traits).total_bytes(), 0);
  EXPECT_EQ(kOperationInfo<ops::Sample>.backward_cost(&sample, traits).total_flops(), 0);
}

TEST(BackwardCost, MessagesGoTheOtherWay) {
  const RankMessage gathered{MessageKind::kAllGather, 4, 100};
  const RankMessage scattered{MessageKind::kReduceScatter, 4, 400};
  EXPECT_EQ(backward_of(gathered), scattered);
  EXPECT_EQ(backward_of(scattered), gathered);
  for (const MessageKind kind : {MessageKind::kAllReduce, MessageKind::kAllToAll, MessageKind::kSend})
    EXPECT_EQ(backward_of({kind, 4, 100}), (RankMessage{kind, 4, 100}));
}

}  // namespace
}  // namespace baleen
