// Costs: the specification's formulas and example, and a loop over every pooled row.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "ops/compressor/compressor.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

/// Flash's, of entries for attention.
CompressorArgs main_compressor(int ratio, const test::UnreadBatch& batch) {
  const std::int64_t width = ratio == 4 ? 1024 : 512;
  return {.kv = test::unread_f32<2>({batch.num_rows(), width}),
          .gate = test::unread_f32<2>({batch.num_rows(), width}),
          .ape = {test::nowhere<const float>(), {ratio, width}},
          .norm_weight = test::unread_span<const float>(512),
          .frequencies = test::unread_span<const float>(32),
          .ratio = ratio,
          .batch = batch.batch(),
          .state = {.ring_rows = ratio == 4 ? 8 : 128, .width = width},
          .latent = {.base = test::nowhere<std::byte>(), .format = {448, 64}}};
}

CompressorArgs index_compressor(const test::UnreadBatch& batch) {
  CompressorArgs args = main_compressor(4, batch);
  args.kv = test::unread_f32<2>({batch.num_rows(), 256});
  args.gate = test::unread_f32<2>({batch.num_rows(), 256});
  args.ape = {test::nowhere<const float>(), {4, 256}};
  args.norm_weight = test::unread_span<const float>(128);
  args.state.width = 256;
  args.latent = {};
  args.index_key = {.base = test::nowhere<std::byte>(), .format = {128}};
  return args;
}

// The products that make kv and gate are a linear's; here both come in float32.
double in_and_weights(double rows, double ratio, double width, double head_dim) {
  return 8 * width * rows + 4 * ratio * width + 2 * head_dim;
}

// Tokens 6, 7, 8: one entry, at 7, of rows 0 to 7, of which 0 to 5 come from the state. Row 8 opens a block
// and rows 4 to 7 are its block before: of this step's rows all three are kept.
TEST(CompressorCost, ExampleOfTheSpecification) {
  const test::UnreadBatch batch({{6, 3}});
  const OpCost cost = compressor_cost(main_compressor(4, batch));
  EXPECT_EQ(cost.scalar_ops, 1024 * 3 + 512 * (6 * 8 + 4) + 192 + 1792);
  EXPECT_EQ(cost.total_bytes(), in_and_weights(3, 4, 1024, 512) + 8 * 1024 * 3 + 8 * 512 * 6 + 584);
  EXPECT_EQ(cost.matrix_flops(), 0);
  const OpCost index = compressor_cost(index_compressor(batch));
  EXPECT_EQ(index.scalar_ops, 256 * 3 + 128 * (6 * 8 + 4) + 192 + 1536);
  EXPECT_EQ(index.total_bytes(), in_and_weights(3, 4, 256, 128) + 8 * 256 * 3 + 8 * 128 * 6 + 68);
}

TEST(CompressorCost, TheFirstBlockHasNoneBeforeIt) {
  const OpCost cost = compressor_cost(main_compressor(4, test::UnreadBatch({{0, 4}})));
  EXPECT_EQ(cost.scalar_ops, 1024 * 4 + 512 * (6 * 4 + 4) + 192 + 1792);
  EXPECT_EQ(cost.total_bytes(), in_and_weights(4, 4, 1024, 512) + 8 * 1024 * 4 + 584);
}

TEST(CompressorCost, DecodeEmitsAtTheEndOfABlockOnly) {
  const OpCost none = compressor_cost(main_compressor(128, test::UnreadBatch({{254, 1}})));
  EXPECT_EQ(none.total_bytes(), in_and_weights(1, 128, 512, 512) + 8 * 512);
  EXPECT_EQ(none.scalar_ops, 512);
  const OpCost one = compressor_cost(main_compressor(128, test::UnreadBatch({{255, 1}})));
  EXPECT_EQ(one.total_bytes(), in_and_weights(1, 128, 512, 512) + 8 * 512 * 127 + 584);
  EXPECT_EQ(one.scalar_ops, 512 + 512 * (6 * 128 + 4) + 192 + 1792);
}

TEST(CompressorCost, EntriesThatExistAreNotMade) {
  test::UnreadBatch batch({{250, 14}});  // entries 62 to 65; 62 and 63 lie in the first page
  const double all = compressor_cost(main_compressor(4, batch)).total_bytes();
  batch.slices()[0].entries_until = 256;
  // Entry 62 pools of rows before 250 two of its own and four before; entry 63 the same two.
  EXPECT_EQ(compressor_cost(main_compressor(4, batch)).total_bytes(), all - 2 * 584 - 8 * 512 * 8);
}

TEST(CompressorCost, RowsBesideThePagesAreCounted) {
  const test::UnreadBatch batch({{0, 600}});
  CompressorArgs args = main_compressor(4, batch);
  const double without = compressor_cost(args).total_bytes();
  args.overlap = {.base = test::nowhere<float>(), .width = 512};
  EXPECT_EQ(compressor_cost(args).total_bytes(), without + 2 * 4 * 8 * 512);
}

TEST(CompressorCost, EqualsALoopOverPooledRows) {
  EXPECT_TRUE(rc::check([] {
    const auto ratio = *rc::gen::element(4, 128);
    const auto start = *rc::gen::inRange<std::int64_t>(0, 600);
    const auto num_tokens = *rc::gen::inRange<std::int64_t>(1, 600);
    const std::int64_t end = start + num_tokens, width = ratio == 4 ? 1024 : 512;
    double entries = 0, rows = 0, old_rows = 0;
    for (std::int64_t position = start; position < end; ++position) {
      if ((position + 1) % ratio != 0) continue;
      ++entries;
      const std::int64_t first = std::max<std::int64_t>(0, position + 1 - (ratio == 4 ? 8 : 128));
      for (std::int64_t row = first; row <= position; ++row) {
        ++rows;
        if (row < start) ++old_rows;
      }
    }
    const auto kept = static_cast<double>(std::min(num_tokens, end % ratio + (ratio == 4 ? 4 : 0)));
    const test::UnreadBatch batch({{start, num_tokens}});
    const OpCost cost = compressor_cost(main_compressor(ratio, batch));
    RC_ASSERT(cost.scalar_ops ==
              static_cast<double>(width * num_tokens) + 6 * 512 * rows + entries * (4 * 512 + 192 + 1792));
    RC_ASSERT(cost.total_bytes() ==
              in_and_weights(static_cast<double>(num_tokens), ratio, static_cast<double>(width), 512) +
                  8 * static_cast<double>(width) * kept + 8 * 512 * old_rows + 584 * entries);
  }));
}

}  // namespace
}  // namespace baleen
