#include "forward/batch_rows.h"

#include <gtest/gtest.h>

#include <random>

namespace baleen {
namespace {

TEST(BatchRows, EveryRowKeepsItsSequencePositionAndPages) {
  const auto seed = static_cast<std::uint64_t>(std::random_device()());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  const std::vector<PageId> pages(16);
  for (int round = 0; round < 200; ++round) {
    std::vector<SequenceSlice> slices;
    std::vector<TokenId> tokens;
    const std::int64_t count = pick(0, 5);
    for (std::int64_t i = 0; i < count; ++i) {
      const SequenceSlice slice{.first_row = std::ssize(tokens),
                                .num_tokens = pick(1, 9),
                                .start = pick(0, 1000),
                                .pages = std::span(pages).first(static_cast<std::size_t>(i)),
                                .window_pages = std::span(pages).last(static_cast<std::size_t>(i)),
                                .state_slot = static_cast<std::int32_t>(i),
                                .window_begin = pick(0, 3),
                                .entries_until = pick(0, 3),
                                .sees_ahead = pick(0, 1) == 1};
      slices.push_back(slice);
      for (std::int64_t t = 0; t < slice.num_tokens; ++t) tokens.push_back(static_cast<TokenId>(pick(0, 99)));
    }
    const RaggedBatch batch{.tokens = tokens, .slices = slices};
    const std::int64_t begin = pick(0, batch.num_rows()), end = pick(begin, batch.num_rows());
    std::vector<SequenceSlice> kept;
    const auto [part, first_row, first_slice] = rows_of(batch, {begin, end}, kept);
    EXPECT_EQ(first_row, begin);
    if (begin < end) {
      EXPECT_EQ(&batch.slice_of(begin), &batch.slices[static_cast<std::size_t>(first_slice)]);
    }
    ASSERT_EQ(part.num_rows(), end - begin);
    std::int64_t next = 0;
    for (const SequenceSlice& slice : part.slices) {
      EXPECT_EQ(slice.first_row, next);
      EXPECT_GE(slice.num_tokens, 1);
      next += slice.num_tokens;
    }
    EXPECT_EQ(next, end - begin);
    for (std::int64_t row = begin; row < end; ++row) {
      const SequenceSlice &whole = batch.slice_of(row), &own = part.slice_of(row - begin);
      EXPECT_EQ(own.start + row - begin - own.first_row, whole.start + row - whole.first_row);
      EXPECT_EQ(part.tokens[static_cast<std::size_t>(row - begin)], tokens[static_cast<std::size_t>(row)]);
      EXPECT_EQ(own.state_slot, whole.state_slot);
      EXPECT_EQ(own.pages.data(), whole.pages.data());
      EXPECT_EQ(own.window_pages.data(), whole.window_pages.data());
      EXPECT_EQ(own.window_begin, whole.window_begin);
      EXPECT_EQ(own.entries_until, whole.entries_until);
      const std::int64_t position = whole.start + row - whole.first_row;
      const PositionRange seen = own.window_at(position, 8), seen_uncut = whole.window_at(position, 8);
      EXPECT_EQ(seen.begin, seen_uncut.begin);
      EXPECT_EQ(seen.end, seen_uncut.end);
    }
  }
}

}  // namespace
}  // namespace baleen
