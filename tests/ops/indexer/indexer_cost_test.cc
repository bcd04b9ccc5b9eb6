// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/indexer/indexer.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kHeads = 64, kTopK = 512;

IndexerArgs queries(const test::UnreadBatch& batch) {
  const std::int64_t rows = batch.num_rows();
  return {.q = test::unread_bf16<3>({rows, kHeads, 128}),
          .head_weights = test::unread_bf16<2>({rows, kHeads}),
          .cosine = test::unread_f32<2>({rows, 32}),
          .sine = test::unread_f32<2>({rows, 32}),
          .batch = batch.batch(),
          .keys = {.format = {128}},
          .selected = {test::nowhere<std::int32_t>(), {rows, kTopK}}};
}

TEST(IndexerCost, PromptScoresATriangle) {
  const OpCost cost = indexer_cost(queries(test::UnreadBatch({{0, 8192}})));
  constexpr double kScores = 8'386'560;
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kFp4)], 2 * kHeads * 128 * kScores);
  EXPECT_EQ(cost.matrix_flops(), 2 * kHeads * 128 * kScores);
  EXPECT_EQ(cost.scalar_ops, 110'592.0 * 8192 + (3 * kHeads + 1) * kScores);
  EXPECT_EQ(cost.cache_bytes, 68 * 2048);
  EXPECT_EQ(cost.total_bytes(), (16'384.0 + 128) * 8192 + 68 * 2048 + 4 * 3'669'504);
}

TEST(IndexerCost, DecodingReadsEverySequencesKeys) {
  const OpCost cost = indexer_cost(queries(test::UnreadBatch({{1'048'575, 1}, {1000, 2}})));
  constexpr double kScores = 262'144 + 250 + 250;
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kFp4)], 2 * kHeads * 128 * kScores);
  EXPECT_EQ(cost.cache_bytes, 68 * (262'144 + 250));
  EXPECT_EQ(cost.write_bytes, 4 * (kTopK + 250 + 250));
}

TEST(IndexerCost, WithoutFp4ItIsFloat32Keys) {
  const test::UnreadBatch batch({{4000, 1}});
  IndexerArgs args = queries(batch);
  args.precision = args.keys.format.precision = Precision::kExact;
  const OpCost cost = indexer_cost(args);
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kF32)], 2 * kHeads * 128 * 1000);
  EXPECT_EQ(cost.cache_bytes, 512 * 1000);
  EXPECT_EQ(cost.scalar_ops, kHeads * (192 + 7 * 128) + (3 * kHeads + 1) * 1000);
}

/// V4.1's layers: entries of one position, no transform, 2,048 blocks of 8.
IndexerArgs of_blocks(const test::UnreadBatch& batch, bool choose) {
  IndexerArgs args = queries(batch);
  args.ratio = 1;
  args.hadamard = false;
  args.blocks.size = 8;
  if (choose) {
    args.blocks.chosen = {test::nowhere<std::int32_t>(), {batch.num_rows(), 2048}};
  } else {
    args.blocks.given = {test::nowhere<const std::int32_t>(), {batch.num_rows(), 2048}};
  }
  return args;
}

TEST(IndexerCost, ChoosingScoresAllAndWritesBlocks) {
  const OpCost cost = indexer_cost(of_blocks(test::UnreadBatch({{99'999, 1}, {19, 2}}), true));
  constexpr double kScores = 100'000 + 20 + 21, kPrepare = kHeads * (192 + 5 * 128);
  EXPECT_EQ(cost.matrix_flops(), 2 * kHeads * 128 * kScores);
  EXPECT_EQ(cost.scalar_ops, 3 * kPrepare + (3 * kHeads + 2) * kScores);
  EXPECT_EQ(cost.cache_bytes, 68 * (100'000 + 21));
  EXPECT_EQ(cost.write_bytes, 4 * (512 + 20 + 21) + 4 * (2048 + 3 + 3));  // of 20 and 21 entries three
}

TEST(IndexerCost, GivenBlocksAreScoredAlone) {
  const OpCost cost = indexer_cost(of_blocks(test::UnreadBatch({{99'999, 1}, {19, 2}}), false));
  constexpr double kScores = 16'384 + 20 + 21, kPrepare = kHeads * (192 + 5 * 128);
  EXPECT_EQ(cost.matrix_flops(), 2 * kHeads * 128 * kScores);
  EXPECT_EQ(cost.scalar_ops, 3 * kPrepare + (3 * kHeads + 1) * kScores);
  EXPECT_EQ(cost.cache_bytes, 68 * (16'384 + 21));
  EXPECT_EQ(cost.write_bytes, 4 * (512 + 20 + 21));
  EXPECT_EQ(cost.read_bytes - cost.cache_bytes, 3 * (kHeads * 256 + kHeads * 2) + 4 * (2048 + 3 + 3));
}

}  // namespace
}  // namespace baleen
