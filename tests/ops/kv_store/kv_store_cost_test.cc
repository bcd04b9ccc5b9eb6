// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/kv_store/kv_store.h"
#include "ops/kv_store/window_write.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(KvStoreCost, NormsTurnsRoundsAndWritesRows) {
  const test::UnreadBatch batch({{1000, 300}, {7, 1}});
  const OpCost cost = kv_store_cost({.kv = test::unread_bf16<2>({301, 512}),
                                     .weight = test::unread_span<const float>(512),
                                     .cosine = test::unread_f32<2>({301, 32}),
                                     .sine = test::unread_f32<2>({301, 32}),
                                     .batch = batch.batch(),
                                     .window = {.rows_per_page = 256, .format = {448, 64}}});
  EXPECT_EQ(cost.scalar_ops, 4032 * 301);
  EXPECT_EQ(cost.total_bytes(), 1024 * 301 + 1024 + 584 * 301);
}

TEST(KvStoreCost, RowsWithGroupsRoundAllValues) {
  const test::UnreadBatch batch({{1000, 300}, {7, 1}});
  const LatentFormat format{
      .nope = 448, .rope = 64, .grouped = GroupedRow{.codes = GroupedCodes::kFp8, .width = 512}};
  const OpCost cost = kv_store_cost({.kv = test::unread_bf16<2>({301, 512}),
                                     .weight = test::unread_span<const float>(512),
                                     .cosine = test::unread_f32<2>({301, 32}),
                                     .sine = test::unread_f32<2>({301, 32}),
                                     .batch = batch.batch(),
                                     .window = {.rows_per_page = 256, .format = format}});
  EXPECT_EQ(cost.scalar_ops, (4032 + 4 * 64) * 301);
  EXPECT_EQ(cost.total_bytes(), 1024 * 301 + 1024 + 528 * 301);
}

TEST(WindowWrite, TouchesThePagesOfItsPositions) {
  EXPECT_EQ(paged_window_write(0, 300).pieces, 2);
  EXPECT_EQ(paged_window_write(0, 256).pieces, 1);
  EXPECT_EQ(paged_window_write(255, 2).pieces, 2);
  EXPECT_EQ(paged_window_write(255, 2).first_piece_rows, 1);
  EXPECT_EQ(paged_window_write(300, 600).rows, 600);
  EXPECT_EQ(paged_window_write(300, 600).pieces, 3);
  EXPECT_EQ(paged_window_write(300, 0).pieces, 0);
}

TEST(WindowWrite, WrapsInARing) {
  const WindowWrite prompt = ring_window_write(0, 300, 128);  // rows 172 .. 299
  EXPECT_EQ(prompt.rows, 128);
  EXPECT_EQ(prompt.pieces, 2);
  EXPECT_EQ(prompt.first_piece_rows, 84);  // and 44
  const WindowWrite chunk = ring_window_write(120, 20, 128);
  EXPECT_EQ(chunk.rows, 20);
  EXPECT_EQ(chunk.first_piece_rows, 8);  // and 12
  EXPECT_EQ(ring_window_write(127, 1, 128).pieces, 1);
  EXPECT_EQ(ring_window_write(0, 128, 128).pieces, 1);
}

}  // namespace
}  // namespace baleen
