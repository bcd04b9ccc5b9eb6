// Selections: by hand, SIMD against the reference on every instruction set (with and without byte dot
// products), and that neither chunks, threads, batch composition nor page sizes show in them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/hadamard.h"
#include "ops/indexer/indexer.h"
#include "ops/indexer/top_k.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr std::int64_t kDim = 128;

/// Inputs of the queries of one sequence, row by row.
struct Queries {
  std::int64_t num_heads;
  std::vector<float> q, weights, cosine, sine;

  Queries(std::int64_t num_rows, std::int64_t heads, std::uint32_t seed)
      : num_heads(heads),
        q(test::random_values(static_cast<std::size_t>(num_rows * heads * kDim), seed)),
        weights(test::random_values(static_cast<std::size_t>(num_rows * heads), seed + 1)) {
    for (const float angle : test::random_values(static_cast<std::size_t>(num_rows * 32), seed + 2)) {
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
};

std::vector<std::int32_t> run(const Queries& queries, std::vector<SequenceSlice> slices,
                              const IndexKeyPool& keys, std::int64_t top_k, int num_threads,
                              test::Kernels kernels = test::kBest, std::int64_t first_row = 0) {
  std::int64_t num_rows = 0;
  for (SequenceSlice& slice : slices) {
    slice.first_row = num_rows;
    num_rows += slice.num_tokens;
  }
  std::vector<std::int32_t> selected(static_cast<std::size_t>(num_rows * top_k), -2);
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
  test::TestCpu cpu(num_threads, indexer_scratch_bytes(queries.num_heads, kDim, top_k, num_threads), kernels);
  const std::int64_t heads = queries.num_heads;
  cpu.run<ops::Indexer>({.q = {queries.q.data() + first_row * heads * kDim, {num_rows, heads, kDim}},
                         .head_weights = {queries.weights.data() + first_row * heads, {num_rows, heads}},
                         .cosine = {queries.cosine.data() + first_row * 32, {num_rows, 32}},
                         .sine = {queries.sine.data() + first_row * 32, {num_rows, 32}},
                         .precision = keys.format.precision,
                         .batch = {tokens, slices},
                         .keys = keys,
                         .selected = {selected.data(), {num_rows, top_k}}});
  return selected;
}

void fill(const IndexKeyPool& pool, std::span<const PageId> pages, std::int64_t num_keys,
          std::uint32_t seed) {
  const std::vector<float> values = test::random_values(static_cast<std::size_t>(num_keys * kDim), seed);
  for (std::int64_t j = 0; j < num_keys; ++j) {
    test::write_row(pool, pages, j, std::span(values).subspan(static_cast<std::size_t>(j * kDim), kDim));
  }
}

/// One head whose prepared query is (1, 0, 0, ...): a key's score is weight * max(0, its first value) /
/// sqrt(128).
Queries first_value_query(float weight) {
  Queries queries(1, 1, 1);
  std::fill(queries.q.begin(), queries.q.end(), 0.0F);
  queries.q[0] = 1.0F;
  hadamard_transform(queries.q);
  std::fill(queries.cosine.begin(), queries.cosine.end(), 1.0F);
  std::fill(queries.sine.begin(), queries.sine.end(), 0.0F);
  queries.weights = {weight};
  return queries;
}

class IndexerByHand : public testing::TestWithParam<test::Kernels> {};

TEST_P(IndexerByHand, BestFirstValuesWinTiesGoToTheLowerIndex) {
  const std::vector<PageId> pages{PageId{0}};
  test::IndexKeyPages keys({kDim, Precision::kExact}, 64, 1);
  const std::vector<float> first{0.5F, 2.0F, -3.0F, 2.0F, 1.0F, -1.0F, 2.0F};
  for (std::size_t j = 0; j < first.size(); ++j) {
    std::vector<float> key(kDim, 0.0F);
    key[0] = first[j];
    test::write_row(keys.pool(), pages, static_cast<std::int64_t>(j), key);
  }
  const std::vector<SequenceSlice> slice{{0, 1, 27, pages, {}, 0}};
  using Selection = std::vector<std::int32_t>;
  EXPECT_EQ(run(first_value_query(1.0F), slice, keys.pool(), 2, 1, GetParam()), (Selection{1, 3}));
  EXPECT_EQ(run(first_value_query(1.0F), slice, keys.pool(), 4, 1, GetParam()), (Selection{1, 3, 4, 6}));
  // Negative weight: relu has cut the negative products to 0, which are the best now.
  EXPECT_EQ(run(first_value_query(-1.0F), slice, keys.pool(), 3, 1, GetParam()), (Selection{0, 2, 5}));
  // All visible ones, then -1, when no more than fit are visible: 27 + 1 tokens have completed 7 blocks.
  EXPECT_EQ(run(first_value_query(1.0F), slice, keys.pool(), 9, 1, GetParam()),
            (Selection{0, 1, 2, 3, 4, 5, 6, -1, -1}));
  EXPECT_EQ(run(first_value_query(1.0F), {{0, 1, 2, pages, {}, 0}}, keys.pool(), 2, 1, GetParam()),
            (Selection{-1, -1}));
  // NaN everywhere: all tie at the bottom.
  EXPECT_EQ(run(first_value_query(std::nanf("")), slice, keys.pool(), 3, 1, GetParam()),
            (Selection{0, 1, 2}));
}
INSTANTIATE_TEST_SUITE_P(BothKernels, IndexerByHand, testing::Values(test::kReference, test::kBest));

TEST(TopK, EqualsSorting) {
  EXPECT_TRUE(rc::check([] {
    // Few distinct scores: ties everywhere.
    const auto drawn = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-4, 5));
    const auto top_k = *rc::gen::inRange<std::int64_t>(1, 20);
    std::vector<ScoredIndex> all, buffer(static_cast<std::size_t>(2 * top_k));
    TopK top(buffer, top_k);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      float score = static_cast<float>(drawn[i]);
      if (drawn[i] == -4) score = -std::numeric_limits<float>::infinity();
      all.push_back({score, static_cast<std::int32_t>(i)});
      top.offer(drawn[i] == -4 && i % 2 == 0 ? std::nanf("") : score, static_cast<std::int32_t>(i));
    }
    std::sort(all.begin(), all.end(), better);
    all.resize(std::min(all.size(), static_cast<std::size_t>(top_k)));
    std::vector<std::int32_t> got(static_cast<std::size_t>(top_k)), want(got.size());
    write_selection(top.best(), got);
    write_selection(all, want);
    RC_ASSERT(got == want);
  }));
}

/// Every compiled instruction set, and AVX-512 once more with byte dot products where the machine has them.
std::vector<std::int64_t> scoring_targets() {
  std::vector<std::int64_t> targets = test::compiled_targets();
  if ((hwy::SupportedTargets() & HWY_AVX3_DL) != 0) targets.push_back(HWY_AVX3 | HWY_AVX3_DL);
  return targets;
}

class IndexerSimd : public test::EveryTarget {};

/// Keys of `got` that `want` lacks, over all rows.
std::size_t num_missing(const std::vector<std::int32_t>& got, const std::vector<std::int32_t>& want,
                        std::int64_t top_k) {
  std::size_t missing = 0;
  for (std::size_t row = 0; row < got.size(); row += static_cast<std::size_t>(top_k)) {
    const auto end = row + static_cast<std::size_t>(top_k);
    for (std::size_t i = row; i < end; ++i) {
      missing += std::find(want.begin() + row, want.begin() + end, got[i]) == want.begin() + end ? 1 : 0;
    }
  }
  return missing;
}

TEST_P(IndexerSimd, AgreesWithTheReference) {
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    for (const std::int64_t heads : {1, 5, 16, 64}) {
      constexpr std::int64_t kTokens = 11, kStart = 4 * 300 - 5, kTopK = 20;
      const std::vector<PageId> pages = test::shuffled_pages(5, 0, 1);
      test::IndexKeyPages keys({kDim, precision}, 64, 5);
      fill(keys.pool(), pages, 302, 7);
      const Queries queries(kTokens, heads, 3);
      const std::vector<SequenceSlice> slice{{0, kTokens, kStart, pages, {}, 0}};
      const auto got = run(queries, slice, keys.pool(), kTopK, 2);
      const auto want = run(queries, slice, keys.pool(), kTopK, 1, test::kReference);
      // A last-bit difference of two scores may exchange the last one selected.
      EXPECT_LE(num_missing(got, want, kTopK), 1u) << precision_name(precision) << ", " << heads << " heads";
      for (std::size_t i = 1; i < got.size(); ++i) ASSERT_TRUE(i % kTopK == 0 || got[i - 1] < got[i]);
    }
  }
}

TEST_P(IndexerSimd, ReleasedScoresAreTheSameOnEveryInstructionSet) {
  // With duplicated keys: equal scores must be equal to the bit for the lower index to win.
  constexpr std::int64_t kTokens = 40, kTopK = 64;
  const std::vector<PageId> pages = test::shuffled_pages(8, 0, 1);
  test::IndexKeyPages keys({kDim, Precision::kReleased}, 64, 8);
  fill(keys.pool(), pages, 250, 7);
  for (std::int64_t j = 250; j < 500; ++j) {
    test::write_row(keys.pool(), pages, j, test::read_row(keys.pool(), pages, j - 250));
  }
  const Queries queries(kTokens, 64, 3);
  const std::vector<SequenceSlice> slice{{0, kTokens, 4 * 480, pages, {}, 0}};
  const auto got = run(queries, slice, keys.pool(), kTopK, 1);
  hwy::SetSupportedTargetsForTest(test::compiled_targets().back());
  EXPECT_EQ(got, run(queries, slice, keys.pool(), kTopK, 1));
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_EQ(got, run(queries, slice, keys.pool(), kTopK, 1));
}

TEST_P(IndexerSimd, ChunksThreadsCompanyAndPagesDoNotShow) {
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    constexpr std::int64_t kTokens = 30, kStart = 4 * 700 - 17, kTopK = 24;
    const Queries queries(kTokens, 6, 3);
    std::vector<std::int32_t> want;
    for (const int rows_per_page : {64, 2, 256}) {
      const std::int64_t num_pages = 720 / rows_per_page + 1;
      const std::vector<PageId> pages = test::shuffled_pages(num_pages, 0, 1);
      test::IndexKeyPages keys({kDim, precision}, rows_per_page, num_pages);
      fill(keys.pool(), pages, 704, 7);
      if (want.empty()) want = run(queries, {{0, kTokens, kStart, pages, {}, 0}}, keys.pool(), kTopK, 1);
      for (const int num_threads : {1, 2, 3}) {
        for (const std::int64_t chunk : {1, 7, 30}) {
          std::vector<std::int32_t> got;
          for (std::int64_t begin = 0; begin < kTokens; begin += chunk) {
            const std::int64_t count = std::min(chunk, kTokens - begin);
            // A second sequence (the same keys, another position) takes the rows after it, where there are
            // some.
            std::vector<SequenceSlice> slices{{0, count, kStart + begin, pages, {}, 0}};
            if (begin + count < kTokens) slices.push_back({0, 1, 900, pages, {}, 0});
            auto part = run(queries, slices, keys.pool(), kTopK, num_threads, test::kBest, begin);
            part.resize(static_cast<std::size_t>(count * kTopK));
            got.insert(got.end(), part.begin(), part.end());
          }
          EXPECT_EQ(got, want) << rows_per_page << " rows a page, " << num_threads << " threads, chunks of "
                               << chunk;
        }
      }
    }
  }
}

TEST_P(IndexerSimd, FarPositions) {
  constexpr std::int64_t kStart = 70'000, kKeys = (kStart + 1) / 4, kTopK = 50;
  const std::vector<PageId> pages = test::shuffled_pages(kStart / 256 + 1, 0, 1);
  test::IndexKeyPages keys({kDim, Precision::kReleased}, 64, static_cast<std::int64_t>(pages.size()));
  fill(keys.pool(), pages, kKeys, 7);
  const Queries queries(1, 8, 3);
  const std::vector<SequenceSlice> slice{{0, 1, kStart, pages, {}, 0}};
  const auto one = run(queries, slice, keys.pool(), kTopK, 1);
  EXPECT_EQ(run(queries, slice, keys.pool(), kTopK, 2), one);
  EXPECT_LE(num_missing(one, run(queries, slice, keys.pool(), kTopK, 1, test::kReference), kTopK), 1u);
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, IndexerSimd, testing::ValuesIn(scoring_targets()),
                         [](const testing::TestParamInfo<std::int64_t>& tested) {
                           const bool byte_dots =
                               (tested.param & HWY_AVX3_DL) != 0 && tested.param != HWY_AVX3_DL;
                           return byte_dots ? std::string("AVX3WithByteDots")
                                            : std::string(hwy::TargetName(tested.param));
                         });

}  // namespace
}  // namespace baleen
