// Costs: the specification's formulas, and loops over every query's list.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "ops/sparse_attention/sparse_attention.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kHeads = 64;

SparseAttentionArgs attention(const test::UnreadBatch& batch, int ratio, std::int64_t top_k = 512) {
  const std::int64_t rows = batch.num_rows();
  SparseAttentionArgs args{.q = test::unread_bf16<3>({rows, kHeads, 512}),
                           .batch = batch.batch(),
                           .window = {.rows_per_page = 256, .format = {448, 64}},
                           .ratio = ratio,
                           .sink = test::unread_span<const float>(kHeads),
                           .out = test::unread_bf16<3>({rows, kHeads, 512})};
  if (ratio != 0) args.compressed = {.rows_per_page = 256 / ratio, .format = {448, 64}};
  if (ratio == 4) args.selected = {test::nowhere<const std::int32_t>(), {rows, top_k}};
  return args;
}

void expect_cost(const OpCost& cost, double queries, double entries, double distinct_rows) {
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kBF16)], 2048 * kHeads * entries);
  EXPECT_EQ(cost.matrix_flops(), 2048 * kHeads * entries);
  EXPECT_EQ(cost.scalar_ops, (6 * entries + 513 * queries) * kHeads);
  EXPECT_DOUBLE_EQ(cost.cache_bytes, 584 * distinct_rows);
  EXPECT_DOUBLE_EQ(cost.total_bytes(),
                   2048 * kHeads * queries + 4 * entries + 4 * kHeads + 584 * distinct_rows);
}

TEST(SparseAttentionCost, PromptOf8192) {
  const test::UnreadBatch batch({{0, 8192}});
  constexpr double kWindow = 1'040'448;
  expect_cost(sparse_attention_cost(attention(batch, 0)), 8192, kWindow, 8192);
  expect_cost(sparse_attention_cost(attention(batch, 128)), 8192, kWindow + 258'112, 8192 + 64);
  // So many queries select every entry.
  expect_cost(sparse_attention_cost(attention(batch, 4)), 8192, kWindow + 3'669'504, 8192 + 2048);
}

TEST(SparseAttentionCost, ATokenAtAMillion) {
  const test::UnreadBatch batch({{1'048'575, 1}});
  expect_cost(sparse_attention_cost(attention(batch, 0)), 1, 128, 128);
  expect_cost(sparse_attention_cost(attention(batch, 4)), 1, 128 + 512, 128 + 512);
  expect_cost(sparse_attention_cost(attention(batch, 128)), 1, 128 + 8192, 128 + 8192);
}

TEST(SparseAttentionCost, EntriesCountByTheirOwnFormat) {
  const test::UnreadBatch batch({{1'048'575, 1}});
  SparseAttentionArgs args = attention(batch, 4);
  args.ratio = 1;
  args.compressed.rows_per_page = 256;
  args.window.format.grouped = GroupedRow{.codes = GroupedCodes::kFp8, .width = 512};
  args.compressed.format.grouped = GroupedRow{.codes = GroupedCodes::kFp4, .width = 512};
  EXPECT_DOUBLE_EQ(sparse_attention_cost(args).cache_bytes, 128 * 528 + 512 * 288);
  args.selected = {};  // all entries
  EXPECT_DOUBLE_EQ(sparse_attention_cost(args).cache_bytes, 128 * 528 + 1'048'576.0 * 288);
}

TEST(SparseAttentionCost, NeighboursShareRows) {
  const test::UnreadBatch batch({{8192, 2}});
  const double selected = 2048 * (1 - 0.75 * 0.75);  // 512 of 2048, twice
  expect_cost(sparse_attention_cost(attention(batch, 4)), 2, 2 * (128 + 512), 129 + selected);
}

TEST(SparseAttentionCost, TheWindowMayBeginLater) {
  test::UnreadBatch batch({{1000, 3}});
  batch.slices()[0].window_begin = 990;
  expect_cost(sparse_attention_cost(attention(batch, 0)), 3, 11 + 12 + 13, 13);
}

TEST(SparseAttentionCost, RowsThatSeeAhead) {
  test::UnreadBatch batch({{1000, 5}});
  batch.slices()[0].sees_ahead = true;
  expect_cost(sparse_attention_cost(attention(batch, 0)), 5, 5 * 133, 133);
  batch.slices()[0].window_begin = 990;
  expect_cost(sparse_attention_cost(attention(batch, 0)), 5, 5 * 15, 15);
}

TEST(SparseAttentionCost, EqualsALoopOverQueries) {
  EXPECT_TRUE(rc::check([] {
    const auto ratio = *rc::gen::element(0, 4, 128);
    const auto start = *rc::gen::inRange<std::int64_t>(0, 2000);
    const auto num_tokens = *rc::gen::inRange<std::int64_t>(1, 600);
    constexpr std::int64_t kTopK = 60;
    std::int64_t entries = 0;
    for (std::int64_t position = start; position < start + num_tokens; ++position) {
      entries += std::min<std::int64_t>(position + 1, 128);
      if (ratio == 4) entries += std::min(kTopK, (position + 1) / 4);
      if (ratio == 128) entries += (position + 1) / 128;
    }
    const test::UnreadBatch batch({{start, num_tokens}, {start, num_tokens}});
    const OpCost cost = sparse_attention_cost(attention(batch, ratio, kTopK));
    RC_ASSERT(cost.matrix_flops() == 2.0 * 2048 * kHeads * static_cast<double>(entries));
  }));
}

TEST(SparseAttentionCost, FusedWithRotationAddsNoBytes) {
  const test::UnreadBatch batch({{500, 3}});
  const SparseAttentionArgs args = attention(batch, 0);
  const RopeArgs turn{
      .x = args.out, .cosine = test::unread_f32<2>({3, 32}), .sine = test::unread_f32<2>({3, 32})};
  const OpCost fused = sparse_attention_rope_cost(args, turn), single = sparse_attention_cost(args);
  EXPECT_EQ(fused.total_bytes(), single.total_bytes());
  EXPECT_EQ(fused.scalar_ops, single.scalar_ops + 192 * kHeads * 3);
}

}  // namespace
}  // namespace baleen
