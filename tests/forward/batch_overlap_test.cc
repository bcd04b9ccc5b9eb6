#include "forward/batch_overlap.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/presets.h"

namespace baleen {
namespace {

/// Where a batch of sequences with so many rows is cut.
std::int64_t cut_of(const std::vector<std::int64_t>& counts, std::int64_t most_rows) {
  std::vector<SequenceSlice> slices;
  std::vector<TokenId> tokens;
  for (const std::int64_t count : counts) {
    slices.push_back({.first_row = std::ssize(tokens), .num_tokens = count});
    tokens.resize(tokens.size() + static_cast<std::size_t>(count));
  }
  return middle_of({.tokens = tokens, .slices = slices}, most_rows);
}

TEST(BatchOverlap, CutsBetweenSequencesNearTheMiddle) {
  EXPECT_EQ(cut_of({50, 50}, 64), 50);
  EXPECT_EQ(cut_of({45, 10, 45}, 64), 45);
  EXPECT_EQ(cut_of({55, 45}, 64), 55);
  EXPECT_EQ(cut_of({1, 1, 1, 1}, 32), 2);
}

TEST(BatchOverlap, CutsThroughASequenceWhereNoBoundaryIsNear) {
  EXPECT_EQ(cut_of({100}, 64), 50);
  EXPECT_EQ(cut_of({30, 70}, 64), 50);
  EXPECT_EQ(cut_of({101}, 64), 51);
}

TEST(BatchOverlap, NoPartHasMoreRowsThanItsBuffers) {
  EXPECT_EQ(cut_of({55, 45}, 50), 50);
  EXPECT_EQ(cut_of({55, 45}, 55), 55);
}

TEST(BatchOverlap, AnEmptyPartIsTheSecond) {
  EXPECT_EQ(cut_of({1}, 32), 1);
  EXPECT_EQ(cut_of({}, 32), 0);
}

TEST(BatchOverlap, BuffersOfHalvesAreWholeGroupsOfRows) {
  for (const std::int64_t rows : {1, 63, 64, 65, 8192}) {
    const std::int64_t all = rows_of_two_batches(rows);
    EXPECT_GE(all, rows);
    EXPECT_LT(all, rows + 64);
    EXPECT_EQ(all / 2 % 32, 0);
  }
}

TEST(BatchOverlap, PlansThatCannotOverlapAreRefused) {
  const ModelConfig config = preset_config("tiny-flash");
  const auto refusal = [&](const ParallelPlan& plan) {
    return overlap_violation(resolved(plan, config)).value_or("");
  };
  EXPECT_EQ(refusal({.dp = 2}), "");
  EXPECT_EQ(refusal({.dp = 4, .expert_transport = ExpertTransport::kAllToAll}), "");
  for (const ParallelPlan& plan :
       {ParallelPlan{.num_devices = 1}, ParallelPlan{.tp = 2}, ParallelPlan{.cp = 2},
        ParallelPlan{.tp = 2, .dp = 2}, ParallelPlan{.dp = 2, .pp = 2}})
    EXPECT_NE(refusal(plan).find("with data-parallel attention alone"), std::string::npos) << refusal(plan);
  EXPECT_NE(refusal({.dp = 2, .expert_transport = ExpertTransport::kAllGather})
                .find("‹expert transport› all-gather moves all tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace baleen
