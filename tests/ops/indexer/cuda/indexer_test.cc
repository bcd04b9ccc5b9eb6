// Selections of the kernels: against the reference where scores are exact and where they are not, and that
// neither rows, batch composition, chunks, splits nor page sizes show in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "numeric/block_scale.h"
#include "numeric/hadamard.h"
#include "ops/indexer/cuda/indexer.h"
#include "ops/indexer/top_k.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr std::int64_t kDim = 128;
constexpr std::int64_t kPairs = 32;

/// Inputs of `num_rows` queries, as float32 that BF16 holds.
struct Queries {
  std::int64_t num_heads;
  std::vector<float> q, weights, cosine, sine;

  Queries(std::int64_t num_rows, std::int64_t heads, std::uint32_t seed)
      : num_heads(heads),
        q(test::random_values(static_cast<std::size_t>(num_rows * heads * kDim), seed)),
        weights(test::random_values(static_cast<std::size_t>(num_rows * heads), seed + 1)) {
    for (float& value : q) value = round_bf16(value);
    for (float& value : weights) value = round_bf16(value);
    for (const float angle : test::random_values(static_cast<std::size_t>(num_rows * kPairs), seed + 2)) {
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }

  /// Small integers, unrotated: with a power of two of heads that makes dim * heads a power of four, every
  /// number on the way to a score is exact in float32.
  void make_exact(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> small(-3, 3);
    for (float& value : q) value = static_cast<float>(small(random));
    for (float& value : weights) value = static_cast<float>(small(random));
    std::fill(cosine.begin(), cosine.end(), 1.0F);
    std::fill(sine.begin(), sine.end(), 0.0F);
  }
};

/// A sequence's part of a batch: queries [first_query, first_query + num_tokens), the first at position
/// `start`.
struct Part {
  std::int64_t first_query;
  std::int64_t num_tokens;
  std::int64_t start;
};

/// Keys of one sequence in a shuffled pool, on the host and on the device.
class Keys {
 public:
  Keys(std::int64_t num_keys, int rows_per_page, std::uint32_t seed)
      : pages_(test::shuffled_pages(num_keys / rows_per_page + 2, 0, seed)),
        pool_({kDim, Precision::kReleased}, rows_per_page, static_cast<std::int64_t>(pages_.size())) {
    const std::vector<float> values =
        test::random_values(static_cast<std::size_t>(num_keys * kDim), seed + 1);
    for (std::int64_t j = 0; j < num_keys; ++j) {
      write(j, std::span(values).subspan(static_cast<std::size_t>(j * kDim), kDim));
    }
  }

  void write(std::int64_t key, std::span<const float> values) {
    test::write_row(pool_.pool(), pages_, key, values);
  }
  [[nodiscard]] std::vector<float> read(std::int64_t key) const {
    return test::read_row(pool_.pool(), pages_, key);
  }
  [[nodiscard]] const IndexKeyPool& host() const { return pool_.pool(); }
  [[nodiscard]] std::span<const PageId> pages() const { return pages_; }
  [[nodiscard]] IndexKeyPool device(test::TestCuda& cuda) const {
    IndexKeyPool pool = pool_.pool();
    pool.base = cuda.upload(pool_.bytes());
    return pool;
  }

 private:
  std::vector<PageId> pages_;
  test::IndexKeyPages pool_;
};

using Selection = std::vector<std::int32_t>;

template <class T>
std::vector<T> rows_of(const std::vector<T>& values, std::int64_t width, const std::vector<Part>& parts) {
  std::vector<T> rows;
  for (const Part& part : parts) {
    const auto from = values.begin() + part.first_query * width;
    rows.insert(rows.end(), from, from + part.num_tokens * width);
  }
  return rows;
}

std::vector<SequenceSlice> slices_of(const std::vector<Part>& parts, std::span<const PageId> pages) {
  std::vector<SequenceSlice> slices;
  std::int64_t num_rows = 0;
  for (const Part& part : parts) {
    slices.push_back({num_rows, part.num_tokens, part.start, pages, {}, 0});
    num_rows += part.num_tokens;
  }
  return slices;
}

/// How V4.1's indexers differ from V4's: entries of fewer positions, no transform, blocks.
struct Form {
  int ratio = 4;
  bool hadamard = true;
  std::int64_t block_size = 0;
  std::int64_t num_blocks = 0;  ///< that a query chooses, or is given
  Selection* chosen = nullptr;  ///< out, of each row
  const Selection* given = nullptr;
};

Selection run(const Queries& queries, const std::vector<Part>& parts, const Keys& keys, std::int64_t top_k,
              int num_sms = 132, std::int32_t padding_rows = 0, const Form& form = {}) {
  test::TestCuda cuda;
  cuda.context().num_sms = num_sms;
  const std::vector<SequenceSlice> slices = slices_of(parts, keys.pages());
  const std::int64_t rows = slices.back().first_row + slices.back().num_tokens, all = rows + padding_rows;
  const std::vector<TokenId> tokens(static_cast<std::size_t>(rows));
  const RaggedBatch batch{tokens, slices};
  cuda.set_batch(batch, padding_rows);
  const std::int64_t heads = queries.num_heads;
  // Padding rows may hold anything finite.
  const auto padded = [&](const std::vector<float>& values, std::int64_t width) {
    std::vector<float> some = rows_of(values, width, parts);
    some.resize(static_cast<std::size_t>(all * width), 1.0F);
    return some;
  };
  auto* selected = cuda.allocate<std::int32_t>(all * top_k);
  IndexBlocks blocks{.size = form.block_size, .chosen = {}, .given = {}};
  std::int32_t* chosen = nullptr;
  if (form.chosen != nullptr) {
    chosen = cuda.allocate<std::int32_t>(all * form.num_blocks);
    blocks.chosen = {chosen, {all, form.num_blocks}};
  }
  if (form.given != nullptr) {
    Selection given = *form.given;
    given.resize(static_cast<std::size_t>(all * form.num_blocks), 0);
    blocks.given = {cuda.upload(given), {all, form.num_blocks}};
  }
  BALEEN_ARCH::indexer(
      {.q = View<const Bf16Bits, 3>(cuda.upload_bf16(padded(queries.q, heads * kDim)), {all, heads, kDim}),
       .head_weights =
           View<const Bf16Bits, 2>(cuda.upload_bf16(padded(queries.weights, heads)), {all, heads}),
       .cosine = {cuda.upload(padded(queries.cosine, kPairs)), {all, kPairs}},
       .sine = {cuda.upload(padded(queries.sine, kPairs)), {all, kPairs}},
       .batch = batch,
       .keys = keys.device(cuda),
       .selected = {selected, {all, top_k}},
       .ratio = form.ratio,
       .hadamard = form.hadamard,
       .blocks = blocks},
      cuda.context());
  cuda.synchronise();
  EXPECT_LE(cuda.context().scratch.peak_bytes(),
            BALEEN_ARCH::indexer_scratch_bytes(all, top_k, num_sms, form.num_blocks));
  if (chosen != nullptr) {
    *form.chosen = cuda.download(chosen, all * form.num_blocks);
    for (auto i = static_cast<std::size_t>(rows * form.num_blocks); i < form.chosen->size(); ++i)
      EXPECT_EQ((*form.chosen)[i], -1);
    form.chosen->resize(static_cast<std::size_t>(rows * form.num_blocks));
  }
  Selection result = cuda.download(selected, all * top_k);
  for (auto i = static_cast<std::size_t>(rows * top_k); i < result.size(); ++i) EXPECT_EQ(result[i], -1);
  result.resize(static_cast<std::size_t>(rows * top_k));
  return result;
}

Selection reference(const Queries& queries, const std::vector<Part>& parts, const Keys& keys,
                    std::int64_t top_k, const Form& form = {}) {
  const std::vector<SequenceSlice> slices = slices_of(parts, keys.pages());
  const std::int64_t rows = slices.back().first_row + slices.back().num_tokens, heads = queries.num_heads;
  const std::vector<TokenId> tokens(static_cast<std::size_t>(rows));
  const auto q = rows_of(queries.q, heads * kDim, parts), weights = rows_of(queries.weights, heads, parts);
  const auto cosine = rows_of(queries.cosine, kPairs, parts), sine = rows_of(queries.sine, kPairs, parts);
  Selection selected(static_cast<std::size_t>(rows * top_k), -2);
  IndexBlocks blocks{.size = form.block_size, .chosen = {}, .given = {}};
  if (form.chosen != nullptr) {
    form.chosen->assign(static_cast<std::size_t>(rows * form.num_blocks), -2);
    blocks.chosen = {form.chosen->data(), {rows, form.num_blocks}};
  }
  if (form.given != nullptr) blocks.given = {form.given->data(), {rows, form.num_blocks}};
  indexer_ref({.q = {q.data(), {rows, heads, kDim}},
               .head_weights = {weights.data(), {rows, heads}},
               .cosine = {cosine.data(), {rows, kPairs}},
               .sine = {sine.data(), {rows, kPairs}},
               .batch = {tokens, slices},
               .keys = keys.host(),
               .selected = {selected.data(), {rows, top_k}},
               .ratio = form.ratio,
               .hadamard = form.hadamard,
               .blocks = blocks});
  return selected;
}

/// Score of a key, and the sum of the magnitudes that went into it.
struct Score {
  double value = 0, magnitude = 0;
};

Score score_of(const Queries& queries, std::int64_t query, const std::vector<float>& key,
               bool hadamard = true) {
  const std::int64_t heads = queries.num_heads;
  const auto factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(kDim) * static_cast<double>(heads)));
  Score score;
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto from = queries.q.begin() + (query * heads + head) * kDim;
    std::vector<float> q(from, from + kDim);
    const auto at = static_cast<std::size_t>(query * kPairs);
    rotate_pairs(std::span(q).last(2 * kPairs), std::span(queries.cosine).subspan(at, kPairs),
                 std::span(queries.sine).subspan(at, kPairs));
    for (float& value : q) value = round_bf16(value);
    if (hadamard) hadamard_transform(q);
    for (float& value : q) value = round_bf16(value);
    simulate_fp4(q, kIndexerGroup);
    const float weight = round_bf16(queries.weights[static_cast<std::size_t>(query * heads + head)] * factor);
    double dot = 0, magnitude = 0;
    for (std::size_t i = 0; i < key.size(); ++i) {
      dot += static_cast<double>(q[i]) * key[i];
      magnitude += std::fabs(static_cast<double>(q[i]) * key[i]);
    }
    score.value += weight * std::max(dot, 0.0);
    score.magnitude += std::fabs(weight) * magnitude;
  }
  return score;
}

/// Tensor cores add FP8 products with some 13 bits below the largest, and rows whose blocks differ by more
/// than 2^14 lose their smallest values; relative to the magnitudes that are added up, that stays below this.
constexpr double kScoreError = 1e-4;

/// The largest gap, relative to the magnitudes added up, between the scores of keys that one selection has in
/// place of the other's; prints the count.
double worst_exchange(const Queries& queries, const std::vector<Part>& parts, const Keys& keys,
                      std::int64_t top_k, const Selection& got, const Selection& want, bool hadamard = true) {
  double worst = 0;
  std::int64_t row = 0, exchanged = 0;
  for (const Part& part : parts) {
    for (std::int64_t i = 0; i < part.num_tokens; ++i, ++row) {
      const auto begin = row * top_k, end = begin + top_k;
      Selection only_got, only_want;
      std::set_difference(got.begin() + begin, got.begin() + end, want.begin() + begin, want.begin() + end,
                          std::back_inserter(only_got));
      std::set_difference(want.begin() + begin, want.begin() + end, got.begin() + begin, got.begin() + end,
                          std::back_inserter(only_want));
      if (only_got.size() != only_want.size()) return std::numeric_limits<double>::infinity();
      exchanged += static_cast<std::int64_t>(only_got.size());
      Score least{1e300, 0}, most{-1e300, 0};
      for (const std::int32_t key : only_got) {
        if (key < 0) return std::numeric_limits<double>::infinity();
        const Score score = score_of(queries, part.first_query + i, keys.read(key), hadamard);
        if (score.value < least.value) least = score;
      }
      for (const std::int32_t key : only_want) {
        const Score score = score_of(queries, part.first_query + i, keys.read(key), hadamard);
        if (score.value > most.value) most = score;
      }
      if (!only_got.empty())
        worst = std::max(worst, (most.value - least.value) / std::max(most.magnitude, least.magnitude));
    }
  }
  testing::Test::RecordProperty("exchanged", static_cast<int>(exchanged));
  return worst;
}

void expect_ascending(const Selection& selected, std::int64_t top_k) {
  for (std::size_t i = 1; i < selected.size(); ++i) {
    if (static_cast<std::int64_t>(i) % top_k == 0 || selected[i] < 0) continue;
    ASSERT_LT(selected[i - 1], selected[i]) << "at " << i;
  }
}

/// Keys of small integers, with which `make_exact` queries have exact scores; the last `num_ties` keys repeat
/// as many before them.
struct ExactKeys : Keys {
  ExactKeys(std::int64_t num_keys, int rows_per_page, std::int64_t num_ties)
      : Keys(num_keys, rows_per_page, 5) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> small(-3, 3);
    std::vector<float> key(kDim);
    for (std::int64_t j = 0; j < num_keys; ++j) {
      for (float& value : key) value = static_cast<float>(small(random));
      write(j, key);
    }
    for (std::int64_t j = num_keys - num_ties; j < num_keys; ++j) write(j, read(j - num_ties));
  }
};

TEST(IndexerOnGpu, ExactScoresSelectWhatTheReferenceSelects) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t heads : {2, 8, 32}) {
    for (const std::int64_t top_k : {1, 8, 100, 512}) {
      const ExactKeys keys(1500, 64, 600);
      Queries queries(21, heads, 3);
      queries.make_exact(11);
      const std::vector<Part> parts{{0, 13, 4 * 1450}, {13, 1, 4 * 777 + 2}, {14, 7, 4 * top_k - 3}};
      EXPECT_EQ(run(queries, parts, keys, top_k), reference(queries, parts, keys, top_k))
          << heads << " heads, top " << top_k;
    }
  }
}

TEST(IndexerOnGpu, OtherRatiosAndQueriesAsTheyAre) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t heads : {8, 32}) {
    for (const int ratio : {1, 2}) {
      const ExactKeys keys(1500, 256 / ratio, 300);
      Queries queries(21, heads, 3);
      queries.make_exact(11);
      for (const bool hadamard : {false, true}) {
        for (const std::int64_t top_k : {8, 512}) {
          const Form form{.ratio = ratio, .hadamard = hadamard};
          const std::vector<Part> parts{
              {0, 13, ratio * 1480}, {13, 1, ratio * 777}, {14, 7, ratio * top_k - 3}};
          EXPECT_EQ(run(queries, parts, keys, top_k, 132, 2, form),
                    reference(queries, parts, keys, top_k, form))
              << heads << " heads, ratio " << ratio << ", top " << top_k;
        }
      }
    }
  }
}

struct BlockCase {
  std::int64_t size, count, top_k;
  int ratio;
};

/// Blocks of one layer, and what another one selects among them.
TEST(IndexerOnGpu, ExactScoresChooseWhatTheReferenceChooses) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t heads : {8, 32}) {
    for (const BlockCase c : {BlockCase{8, 40, 64, 1},
                              {8, 5, 64, 1},
                              {4, 60, 20, 2},
                              {16, 9, 100, 1},
                              {2, 100, 8, 1},
                              {8, 2048, 512, 1},
                              {8, 1, 20, 1}}) {
      const ExactKeys keys(1700, 256 / c.ratio, 500);
      Queries first(21, heads, 3), second(21, heads, 4);
      first.make_exact(11);
      second.make_exact(12);
      const std::vector<Part> parts{{0, 13, c.ratio * 1600 + 1}, {13, 1, c.ratio * 777}, {14, 7, 0}};
      Selection got_blocks, want_blocks;
      Form got{.ratio = c.ratio, .hadamard = false, .block_size = c.size, .num_blocks = c.count}, want = got;
      got.chosen = &got_blocks;
      want.chosen = &want_blocks;
      for (const int num_sms : {1, 132}) {
        EXPECT_EQ(run(first, parts, keys, c.top_k, num_sms, 2, got),
                  reference(first, parts, keys, c.top_k, want));
        EXPECT_EQ(got_blocks, want_blocks) << heads << " heads, " << c.count << " blocks of " << c.size;
        const Form given{.ratio = c.ratio,
                         .hadamard = false,
                         .block_size = c.size,
                         .num_blocks = c.count,
                         .given = &want_blocks};
        EXPECT_EQ(run(second, parts, keys, c.top_k, num_sms, 2, given),
                  reference(second, parts, keys, c.top_k, given))
            << heads << " heads, " << c.count << " blocks of " << c.size;
      }
    }
  }
}

TEST(IndexerOnGpu, ManyKeysFillTheListsOfBlocks) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kKeys = 60'000, kTopK = 512, kBlocks = 2048;
  const Keys keys(kKeys, 256, 5);
  Queries queries(9, 32, 3);
  queries.make_exact(11);
  Selection whole, want_blocks;
  Form form{.ratio = 1, .hadamard = false, .block_size = 8, .num_blocks = kBlocks, .chosen = &whole};
  const std::vector<Part> parts{{0, 9, kKeys - 9}};
  const Selection selected = run(queries, parts, keys, kTopK, 1, 0, form);  // one block has all keys
  expect_ascending(selected, kTopK);
  expect_ascending(whole, kBlocks);
  for (std::size_t row = 0; row < 9; ++row) {
    const auto newest = static_cast<std::int32_t>((kKeys - 9 + static_cast<std::int64_t>(row)) / 8);
    EXPECT_EQ(whole[(row + 1) * kBlocks - 1], newest);
  }
  for (const int num_sms : {20, 132, 500}) {
    Selection blocks;
    form.chosen = &blocks;
    EXPECT_EQ(run(queries, parts, keys, kTopK, num_sms, 0, form), selected) << num_sms;
    EXPECT_EQ(blocks, whole) << num_sms << " multiprocessors";
    const Selection alone = run(queries, {{4, 1, kKeys - 5}}, keys, kTopK, num_sms, 0, form);
    EXPECT_EQ(alone, Selection(selected.begin() + 4 * kTopK, selected.begin() + 5 * kTopK));
    EXPECT_EQ(blocks, Selection(whole.begin() + 4 * kBlocks, whole.begin() + 5 * kBlocks));
  }
  form.chosen = &want_blocks;
  EXPECT_LE(worst_exchange(queries, {{8, 1, kKeys - 1}}, keys, kTopK,
                           Selection(selected.end() - kTopK, selected.end()),
                           reference(queries, {{8, 1, kKeys - 1}}, keys, kTopK, form), form.hadamard),
            kScoreError);
  // Blocks that one has in place of the other's tie nearly: a few at most.
  Selection only;
  std::set_difference(want_blocks.begin(), want_blocks.end(), whole.end() - kBlocks, whole.end(),
                      std::back_inserter(only));
  EXPECT_LE(only.size(), 3U);
}

TEST(IndexerOnGpu, AgreesWithTheReferenceUpToNearTies) {
  BALEEN_NEEDS_GPU();
  for (const std::int64_t heads : {1, 5, 16, 64}) {
    for (const std::int64_t top_k : {20, 512}) {
      const Keys keys(2100, 64, 5);
      const Queries queries(11, heads, 3);
      const std::vector<Part> parts{{0, 6, 4 * 2000 - 5}, {6, 5, 4 * 1111}};
      const Selection got = run(queries, parts, keys, top_k);
      const Selection want = reference(queries, parts, keys, top_k);
      expect_ascending(got, top_k);
      EXPECT_LE(worst_exchange(queries, parts, keys, top_k, got, want), kScoreError)
          << heads << " heads, top " << top_k;
    }
  }
}

TEST(IndexerOnGpu, BlocksOfVeryDifferentScale) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kKeys = 600, kTopK = 50;
  Keys keys(kKeys, 64, 5);
  Queries queries(9, 64, 3);
  std::mt19937 random(13);
  std::uniform_int_distribution<int> exponent(-24, 0);
  for (std::int64_t j = 0; j < kKeys; ++j) {
    std::vector<float> key = keys.read(j);
    for (std::size_t block = 0; block < key.size(); block += 32) {
      const float scale = std::ldexp(1.0F, exponent(random));
      for (std::size_t i = 0; i < 32; ++i) key[block + i] *= scale;
    }
    keys.write(j, key);
  }
  const std::vector<Part> parts{{0, 9, 4 * kKeys - 10}};
  const Selection got = run(queries, parts, keys, kTopK);
  EXPECT_LE(worst_exchange(queries, parts, keys, kTopK, got, reference(queries, parts, keys, kTopK)),
            kScoreError);
}

TEST(IndexerOnGpu, ScoresThatRiseWithTheKeyFillTheCandidatesAllTheTime) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kKeys = 6000, kStart = 4 * kKeys - 20;
  Keys keys(kKeys, 64, 5);
  Queries queries(17, 64, 3);
  for (float& weight : queries.weights) weight = std::fabs(weight);
  for (std::int64_t j = 0; j < kKeys; ++j) {
    std::vector<float> key = keys.read(j);
    for (float& value : key) value = std::ldexp(value, static_cast<int>(j / 100) - 30);
    keys.write(j, key);
  }
  for (const std::int64_t top_k : {8, 512, 1024, 1536, 2048}) {
    const std::vector<Part> parts{{0, 17, kStart}};
    const Selection got = run(queries, parts, keys, top_k, 1);
    EXPECT_LE(worst_exchange(queries, parts, keys, top_k, got, reference(queries, parts, keys, top_k)),
              kScoreError)
        << "top " << top_k;
    Selection one = run(queries, {{16, 1, kStart + 16}}, keys, top_k);
    EXPECT_EQ(one, Selection(got.end() - top_k, got.end())) << "top " << top_k;
  }
}

TEST(IndexerOnGpu, FewVisibleAreAllSelected) {
  BALEEN_NEEDS_GPU();
  const Keys keys(70, 64, 5);
  const Queries queries(40, 8, 3);
  for (const std::int64_t start : {0, 2, 3, 200}) {
    const std::vector<Part> parts{{0, 40, start}};
    EXPECT_EQ(run(queries, parts, keys, 64), reference(queries, parts, keys, 64)) << start;
  }
}

TEST(IndexerOnGpu, NanIsTheLowestScore) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kTopK = 30;
  const Keys keys(400, 64, 5);
  Queries queries(3, 8, 3);
  queries.make_exact(5);
  std::fill(queries.weights.begin() + 8, queries.weights.begin() + 16, std::nanf(""));
  const float infinity = std::numeric_limits<float>::infinity();
  queries.weights[16] = infinity;  // infinite scores, and NaN where the product is 0
  const std::vector<Part> parts{{0, 3, 4 * 390}};
  EXPECT_EQ(run(queries, parts, keys, kTopK), reference(queries, parts, keys, kTopK));
  EXPECT_EQ(run(queries, {{1, 1, 4 * 390}}, keys, kTopK), reference(queries, {{1, 1, 4 * 390}}, keys, kTopK));
}

TEST(IndexerOnGpu, RowsCompanySplitsAndPagesDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kTokens = 30, kStart = 4 * 3000 - 17, kTopK = 512;
  const Queries queries(kTokens, 64, 3);
  const Keys keys(3010, 64, 5);
  const Selection want = run(queries, {{0, kTokens, kStart}}, keys, kTopK);
  expect_ascending(want, kTopK);
  for (const int num_sms : {1, 3, 132, 500}) {
    EXPECT_EQ(run(queries, {{0, kTokens, kStart}}, keys, kTopK, num_sms), want)
        << num_sms << " multiprocessors";
  }
  for (const std::int64_t chunk : {1, 3, 7, 16}) {
    for (const int num_sms : {2, 132}) {
      Selection got;
      for (std::int64_t begin = 0; begin < kTokens; begin += chunk) {
        const std::int64_t count = std::min(chunk, kTokens - begin);
        // Another sequence's row before and after, where there are some.
        std::vector<Part> parts{{begin, count, kStart + begin}};
        if (begin + count < kTokens) parts.push_back({begin + count, 1, 9000});
        if (begin > 0) parts.insert(parts.begin(), {begin - 1, 1, 7777});
        const Selection all = run(queries, parts, keys, kTopK, num_sms, static_cast<std::int32_t>(begin % 3));
        const auto from = all.begin() + (begin > 0 ? kTopK : 0);
        got.insert(got.end(), from, from + count * kTopK);
      }
      EXPECT_EQ(got, want) << "chunks of " << chunk << ", " << num_sms << " multiprocessors";
    }
  }
  for (const int rows_per_page : {2, 256}) {
    Keys other(3010, rows_per_page, 5);
    for (std::int64_t j = 0; j < 3010; ++j) other.write(j, keys.read(j));
    EXPECT_EQ(run(queries, {{0, kTokens, kStart}}, other, kTopK), want) << rows_per_page << " rows a page";
  }
}

TEST(IndexerOnGpu, FarPositions) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kKeys = 40'000, kStart = 4 * kKeys - 9;
  const Keys keys(kKeys, 64, 5);
  const Queries queries(9, 64, 3);
  for (const std::int64_t top_k : {512, 1024}) {
    const Selection one = run(queries, {{0, 1, kStart}}, keys, top_k);
    const Selection want = reference(queries, {{0, 1, kStart}}, keys, top_k);
    EXPECT_LE(worst_exchange(queries, {{0, 1, kStart}}, keys, top_k, one, want), kScoreError);
    Selection several = run(queries, {{0, 9, kStart}}, keys, top_k);
    EXPECT_EQ(several, run(queries, {{0, 9, kStart}}, keys, top_k, 1));  // a block streams all keys
    several.resize(static_cast<std::size_t>(top_k));
    EXPECT_EQ(several, one);
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
