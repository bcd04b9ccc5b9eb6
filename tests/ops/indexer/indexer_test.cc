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

/// How a model's indexer differs from V4's.
struct Form {
  int ratio = 4;
  bool hadamard = true;
  std::int64_t block_size = 0;
  std::int64_t num_chosen = 0;               ///< blocks that are chosen; 0: none are
  std::span<const std::int32_t> given = {};  ///< blocks, in rows of num_given
  std::int64_t num_given = 0;
  std::vector<std::int32_t>* chosen = nullptr;  ///< in rows of num_chosen
};

std::vector<std::int32_t> run(const Queries& queries, std::vector<SequenceSlice> slices,
                              const IndexKeyPool& keys, std::int64_t top_k, int num_threads,
                              test::Kernels kernels = test::kBest, std::int64_t first_row = 0,
                              const Form& form = {}) {
  std::int64_t num_rows = 0;
  for (SequenceSlice& slice : slices) {
    slice.first_row = num_rows;
    num_rows += slice.num_tokens;
  }
  std::vector<std::int32_t> selected(static_cast<std::size_t>(num_rows * top_k), -2);
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
  test::TestCpu cpu(num_threads,
                    indexer_scratch_bytes(queries.num_heads, kDim, top_k, num_threads, form.num_chosen),
                    kernels);
  const std::int64_t heads = queries.num_heads;
  IndexBlocks blocks{.size = form.block_size, .chosen = {}, .given = {}};
  if (form.chosen != nullptr) {
    form.chosen->assign(static_cast<std::size_t>(num_rows * form.num_chosen), -2);
    blocks.chosen = {form.chosen->data(), {num_rows, form.num_chosen}};
  }
  if (form.num_given > 0)
    blocks.given = {form.given.data() + first_row * form.num_given, {num_rows, form.num_given}};
  cpu.run<ops::Indexer>({.q = {queries.q.data() + first_row * heads * kDim, {num_rows, heads, kDim}},
                         .head_weights = {queries.weights.data() + first_row * heads, {num_rows, heads}},
                         .cosine = {queries.cosine.data() + first_row * 32, {num_rows, 32}},
                         .sine = {queries.sine.data() + first_row * 32, {num_rows, 32}},
                         .precision = keys.format.precision,
                         .batch = {tokens, slices},
                         .keys = keys,
                         .selected = {selected.data(), {num_rows, top_k}},
                         .ratio = form.ratio,
                         .hadamard = form.hadamard,
                         .blocks = blocks});
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
/// Keys whose first values are `first`, at position `position` of a sequence with entries of one position.
struct Firsts {
  std::vector<PageId> pages{PageId{0}};
  test::IndexKeyPages keys{{kDim, Precision::kExact}, 256, 1};

  explicit Firsts(const std::vector<float>& first) {
    for (std::size_t j = 0; j < first.size(); ++j) {
      std::vector<float> key(kDim, 0.0F);
      key[0] = first[j];
      test::write_row(keys.pool(), pages, static_cast<std::int64_t>(j), key);
    }
  }
  [[nodiscard]] SequenceSlice at(std::int64_t position) const { return {0, 1, position, pages, {}, 0}; }
};

/// As first_value_query, for keys that were stored without a Hadamard transform.
Queries plain_first_value_query() {
  Queries queries = first_value_query(1.0F);
  std::fill(queries.q.begin(), queries.q.end(), 0.0F);
  queries.q[0] = 1.0F;
  return queries;
}

using Selection = std::vector<std::int32_t>;

TEST_P(IndexerByHand, QueriesAreTransformedWhereKeysWere) {
  const Firsts firsts({1.0F, 3.0F, 2.0F, 5.0F});
  EXPECT_EQ(run(plain_first_value_query(), {firsts.at(3)}, firsts.keys.pool(), 2, 1, GetParam(), 0,
                {.ratio = 1, .hadamard = false}),
            (Selection{1, 3}));
  // Transformed, the query sees all values alike; those beyond the first one decide.
  std::vector<float> key(kDim, 0.0F);
  key[1] = 100.0F;
  test::write_row(firsts.keys.pool(), firsts.pages, 2, key);
  EXPECT_EQ(run(plain_first_value_query(), {firsts.at(3)}, firsts.keys.pool(), 1, 1, GetParam(), 0,
                {.ratio = 1, .hadamard = true}),
            (Selection{2}));
}

TEST_P(IndexerByHand, EntriesThatAreCompleteAreVisible) {
  const Firsts firsts({1.0F, 2.0F, 3.0F, 4.0F, 5.0F});
  for (std::int64_t position = 0; position < 5; ++position) {
    const auto last = static_cast<std::int32_t>(position);
    EXPECT_EQ(run(plain_first_value_query(), {firsts.at(position)}, firsts.keys.pool(), 1, 1, GetParam(), 0,
                  {.ratio = 1, .hadamard = false}),
              (Selection{last}));
    // Of pairs: nothing at position 0, entry 0 from position 1 on.
    EXPECT_EQ(run(plain_first_value_query(), {firsts.at(position)}, firsts.keys.pool(), 1, 1, GetParam(), 0,
                  {.ratio = 2, .hadamard = false}),
              (Selection{(last + 1) / 2 - 1}));
  }
}

TEST_P(IndexerByHand, BlocksByTheirBestEntryAndTheNewestInAnyCase) {
  //                  block 0           1                 2           3           4: one entry
  const Firsts firsts({1, 1, 1, /**/ 0, 9, 0, /**/ 2, 8, 2, /**/ 3, 3, 3, /**/ 0.5F});
  std::vector<std::int32_t> chosen;
  const auto choose = [&](std::int64_t position, std::int64_t count) {
    const Selection selected =
        run(plain_first_value_query(), {firsts.at(position)}, firsts.keys.pool(), 2, 1, GetParam(), 0,
            {.ratio = 1, .hadamard = false, .block_size = 3, .num_chosen = count, .chosen = &chosen});
    // The layer that chooses selects among all.
    if (position >= 7) {
      EXPECT_EQ(selected, (Selection{4, 7}));
    }
    return chosen;
  };
  EXPECT_EQ(choose(12, 3), (Selection{1, 2, 4}));
  EXPECT_EQ(choose(12, 2), (Selection{1, 4}));
  EXPECT_EQ(choose(12, 1), (Selection{4}));
  EXPECT_EQ(choose(11, 3), (Selection{1, 2, 3}));  // block 3 has the newest and is whole
  EXPECT_EQ(choose(12, 7), (Selection{0, 1, 2, 3, 4, -1, -1}));
  // What is not visible does not count: of block 1 its first entry alone, which is the newest.
  EXPECT_EQ(choose(3, 1), (Selection{1}));
  EXPECT_EQ(choose(0, 2), (Selection{0, -1}));
}

TEST_P(IndexerByHand, WithoutEntriesNoBlockIsChosen) {
  const Firsts firsts({1, 2, 3});
  std::vector<std::int32_t> chosen;
  EXPECT_EQ(run(plain_first_value_query(), {firsts.at(0)}, firsts.keys.pool(), 2, 1, GetParam(), 0,
                {.ratio = 2, .hadamard = false, .block_size = 2, .num_chosen = 2, .chosen = &chosen}),
            (Selection{-1, -1}));
  EXPECT_EQ(chosen, (Selection{-1, -1}));
}

TEST_P(IndexerByHand, TiesOfBlocksGoToTheLowerOne) {
  const Firsts firsts({5, 0, /**/ 7, 0, /**/ 5, 0, /**/ 5, 5, /**/ 0, 0});
  std::vector<std::int32_t> chosen;
  run(plain_first_value_query(), {firsts.at(9)}, firsts.keys.pool(), 1, 1, GetParam(), 0,
      {.ratio = 1, .hadamard = false, .block_size = 2, .num_chosen = 3, .chosen = &chosen});
  EXPECT_EQ(chosen, (Selection{0, 1, 4}));
}

TEST_P(IndexerByHand, SelectsInGivenBlocksAlone) {
  const Firsts firsts({1, 1, 1, /**/ 0, 9, 0, /**/ 2, 8, 2, /**/ 3, 3, 3, /**/ 0.5F, 100, 100});
  const auto select = [&](const Selection& given, std::int64_t top_k, std::int64_t position) {
    return run(
        plain_first_value_query(), {firsts.at(position)}, firsts.keys.pool(), top_k, 1, GetParam(), 0,
        {.ratio = 1, .hadamard = false, .block_size = 3, .given = given, .num_given = std::ssize(given)});
  };
  EXPECT_EQ(select({2, 3, 4}, 2, 12), (Selection{7, 9}));
  // Fewer than there is room for: the rest stays empty, whatever else is visible.
  EXPECT_EQ(select({0, 4, -1}, 6, 12), (Selection{0, 1, 2, 12, -1, -1}));
  EXPECT_EQ(select({0, 4, -1}, 4, 12), (Selection{0, 1, 2, 12}));
  EXPECT_EQ(select({-1, -1, -1}, 3, 12), (Selection{-1, -1, -1}));
  // Entries 13 and 14 are of block 4 and not visible at position 12; they are at 14.
  EXPECT_EQ(select({1, 4, -1}, 2, 12), (Selection{4, 12}));
  EXPECT_EQ(select({1, 4, -1}, 2, 14), (Selection{13, 14}));
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

/// Blocks and selections of two layers, one after the other, cut into chunks and threads.
struct TwoLayers {
  Precision precision;
  int ratio;
  std::int64_t block_size, num_blocks, top_k, num_tokens, start;

  struct Result {
    std::vector<std::int32_t> chosen, selected, restricted;
    bool operator==(const Result&) const = default;
  };

  [[nodiscard]] Result run_in(std::int64_t chunk, int num_threads, test::Kernels kernels) const {
    const std::int64_t rows_per_page = 256 / ratio, num_keys = (start + num_tokens) / ratio;
    const std::int64_t num_pages = num_keys / rows_per_page + 1;
    const std::vector<PageId> pages = test::shuffled_pages(num_pages, 0, 1);
    test::IndexKeyPages keys({kDim, precision}, static_cast<int>(rows_per_page), num_pages);
    fill(keys.pool(), pages, num_keys, 7);
    const Queries first(num_tokens, 32, 3), second(num_tokens, 32, 4);
    Result all;
    const auto append = [](std::vector<std::int32_t>& to, const std::vector<std::int32_t>& some) {
      to.insert(to.end(), some.begin(), some.end());
    };
    for (std::int64_t begin = 0; begin < num_tokens; begin += chunk) {
      const std::vector<SequenceSlice> slices{
          {0, std::min(chunk, num_tokens - begin), start + begin, pages, {}, 0}};
      std::vector<std::int32_t> chosen;
      Form form{.ratio = ratio, .hadamard = false, .block_size = block_size};
      form.num_chosen = num_blocks;
      form.chosen = &chosen;
      append(all.selected, run(first, slices, keys.pool(), top_k, num_threads, kernels, begin, form));
      append(all.chosen, chosen);
      form = {.ratio = ratio, .hadamard = false, .block_size = block_size};
      form.given = all.chosen;
      form.num_given = num_blocks;
      append(all.restricted, run(second, slices, keys.pool(), top_k, num_threads, kernels, begin, form));
    }
    return all;
  }
};

TEST_P(IndexerSimd, BlocksAgreeWithTheReference) {
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    for (const TwoLayers& layers : {TwoLayers{precision, 1, 8, 12, 20, 9, 290},
                                    {precision, 1, 8, 3, 40, 9, 250},   // fewer candidates than selected
                                    {precision, 2, 4, 7, 10, 11, 301},  // odd start
                                    {precision, 1, 5, 6, 11, 7, 127},   // blocks that cross groups
                                    {precision, 1, 8, 4, 16, 40, 0},    // from the start
                                    {precision, 1, 48, 2, 30, 5, 250}}) {
      const TwoLayers::Result got = layers.run_in(layers.num_tokens, 2, test::kBest),
                              want = layers.run_in(layers.num_tokens, 1, test::kReference);
      // A last-bit difference of two scores may exchange the last one.
      EXPECT_LE(num_missing(got.chosen, want.chosen, layers.num_blocks), 1u) << precision_name(precision);
      EXPECT_LE(num_missing(got.selected, want.selected, layers.top_k), 1u) << precision_name(precision);
      if (got.chosen != want.chosen) continue;
      EXPECT_LE(num_missing(got.restricted, want.restricted, layers.top_k), 1u) << precision_name(precision);
    }
  }
}

TEST_P(IndexerSimd, ChunksAndThreadsDoNotShowInBlocks) {
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    for (const TwoLayers& layers : {TwoLayers{precision, 1, 8, 12, 20, 23, 401},
                                    {precision, 2, 8, 9, 24, 17, 600},
                                    {precision, 1, 5, 6, 11, 12, 200}}) {
      const TwoLayers::Result want = layers.run_in(layers.num_tokens, 1, test::kBest);
      for (const int num_threads : {1, 2, 3}) {
        for (const std::int64_t chunk : {1, 5}) {
          EXPECT_EQ(layers.run_in(chunk, num_threads, test::kBest), want)
              << num_threads << " threads, chunks of " << chunk;
        }
      }
    }
  }
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
