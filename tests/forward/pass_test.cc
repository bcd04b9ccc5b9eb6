#include "forward/pass.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/presets.h"

namespace baleen {
namespace {

/// The ranges of all ranks, one behind the other, are all rows.
void expect_all_rows(std::span<const RowRange> shares, std::int64_t num_rows) {
  std::int64_t end = 0;
  for (const RowRange& rows : shares) {
    EXPECT_EQ(rows.begin, end);
    end = rows.end;
  }
  EXPECT_EQ(end, num_rows);
}

/// A step of two sequences, padded from 11 rows to 12, and the shares of each rank of a data-parallel group.
class Shares : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 12;

  void share(const ParallelPlan& given, const std::function<void(const RowShares&, std::int64_t)>& check) {
    const ModelConfig config = preset_config("tiny-flash");
    const ParallelPlan plan = resolved(given, config);
    SCOPED_TRACE(to_text(plan));
    for (std::int64_t rank = 0; rank < plan.group_ranks(); ++rank) {
      const RankLayout layout(config, plan, even_stage(config, 1, 0), 0, rank);
      check(RowShares(layout, step_), rank);
    }
  }

  std::vector<TokenId> tokens_ = std::vector<TokenId>(kRows);
  std::vector<SequenceSlice> slices_{{.first_row = 0, .num_tokens = 5, .start = 7},
                                     {.first_row = 5, .num_tokens = 6, .start = 0}};
  const Step step_{.batch = {.tokens = std::span(tokens_).first(11), .slices = slices_},
                   .rows = {.num_rows = kRows, .tokens = tokens_}};
};

TEST_F(Shares, OfOneRankAreAllRows) {
  share({.num_devices = 1}, [](const RowShares& shares, std::int64_t) {
    EXPECT_EQ(shares.num_rows(), kRows);
    EXPECT_EQ(shares.kept().size(), kRows);
    EXPECT_EQ(shares.dispatched().size(), kRows);
    EXPECT_EQ(shares.attending().size(), kRows);
    EXPECT_EQ(shares.attending_batch().batch.slices.size(), 2U);
  });
}

/// Ranks with the same tokens keep and attend with all of them, and send a part of them to experts each.
TEST_F(Shares, OfSplitHeads) {
  share({.num_devices = 2, .tp = 2}, [](const RowShares& shares, std::int64_t rank) {
    EXPECT_EQ(shares.kept().size(), kRows);
    EXPECT_EQ(shares.attending().size(), kRows);
    expect_all_rows(shares.dispatched_by_rank(), kRows);
    EXPECT_EQ(shares.dispatched().begin, rank * kRows / 2);
  });
}

TEST_F(Shares, OfSequenceParallelism) {
  share({.num_devices = 2, .tp = 2, .sequence_parallel = true},
        [](const RowShares& shares, std::int64_t rank) {
          expect_all_rows(shares.kept_by_rank(), kRows);
          EXPECT_EQ(shares.kept().begin, rank * kRows / 2);
          EXPECT_EQ(shares.attending().size(), kRows);
        });
}

/// Ranks that share out rows attend with those that they keep, as a batch that begins at row 0: sequences of
/// 5 and 6 rows, cut behind 6.
TEST_F(Shares, OfContextParallelism) {
  share({.num_devices = 2, .cp = 2}, [](const RowShares& shares, std::int64_t rank) {
    expect_all_rows(shares.kept_by_rank(), kRows);
    EXPECT_EQ(shares.attending().begin, shares.kept().begin);
    EXPECT_EQ(shares.attending().end, shares.kept().end);
    const BatchPart& part = shares.attending_batch();
    EXPECT_EQ(part.first_row, rank * 6);
    EXPECT_EQ(part.first_slice, rank);
    ASSERT_EQ(part.batch.slices.size(), rank == 0 ? 2U : 1U);
    const SequenceSlice& last = part.batch.slices.back();
    EXPECT_EQ(last.first_row, rank == 0 ? 5 : 0);
    EXPECT_EQ(last.num_tokens, rank == 0 ? 1 : 5);
    EXPECT_EQ(last.start, rank == 0 ? 0 : 1);
  });
}

}  // namespace
}  // namespace baleen
