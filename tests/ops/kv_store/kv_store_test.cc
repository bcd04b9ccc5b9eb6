// Window rows: by hand, SIMD against the reference, and that neither chunks, threads nor batch composition
// show in the pages.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/kv_store/kv_store.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr int kRope = 64;

/// A sequence's part of a step.
struct Part {
  std::int64_t start = 0;
  std::span<const float> kv;  ///< [tokens, head_dim]
  std::span<const PageId> pages;
};

/// Runs one step over `parts`.
void store(const std::vector<Part>& parts, std::span<const float> weight, const LatentPool& window,
           int num_threads, test::Kernels kernels = test::kBest) {
  const auto head_dim = static_cast<std::int64_t>(weight.size());
  const std::vector<float> frequencies = rope_frequencies(10000.0F, kRope, nullptr);
  std::vector<float> kv, cosine, sine;
  std::vector<SequenceSlice> slices;
  std::int64_t num_rows = 0;
  for (const Part& part : parts) {
    const std::int64_t num_tokens = static_cast<std::int64_t>(part.kv.size()) / head_dim;
    slices.push_back({num_rows, num_tokens, part.start, {}, part.pages, 0});
    num_rows += num_tokens;
    kv.insert(kv.end(), part.kv.begin(), part.kv.end());
    for (std::int64_t i = 0; i < num_tokens; ++i) {
      cosine.resize(cosine.size() + kRope / 2);
      sine.resize(cosine.size());
      rope_angles(frequencies, part.start + i, std::span(cosine).last(kRope / 2),
                  std::span(sine).last(kRope / 2));
    }
  }
  const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
  test::TestCpu cpu(num_threads, kv_store_scratch_bytes(head_dim, num_threads), kernels);
  cpu.run<ops::KvStore>({.kv = {kv.data(), {num_rows, head_dim}},
                         .weight = weight,
                         .cosine = {cosine.data(), {num_rows, kRope / 2}},
                         .sine = {sine.data(), {num_rows, kRope / 2}},
                         .batch = {tokens, slices},
                         .window = window});
}

std::vector<float> read_all(const LatentPool& pool, std::span<const PageId> pages, std::int64_t begin,
                            std::int64_t end) {
  std::vector<float> all;
  for (std::int64_t position = begin; position < end; ++position) {
    const std::vector<float> row = test::read_row(pool, pages, position);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

TEST(KvStore, ByHand) {
  const LatentFormat format{64, 64, Precision::kReleased};
  const std::vector<PageId> pages{PageId{2}, PageId{0}};
  test::LatentPages window(format, 256, 3);
  std::vector<float> kv(2 * 128, 2.0F);  // root mean square 2
  std::vector<float> weight(128, 1.0F);
  weight[3] = 3.0F;
  weight[64] = 0.5F;
  store({{255, kv, pages}}, weight, window.pool(), 1, test::kReference);
  const std::vector<float> row = read_all(window.pool(), pages, 256, 257);
  EXPECT_EQ(row[0], 1.0F);
  EXPECT_EQ(row[3], 3.0F);
  // The first pair turns by one radian a position: (0.5, 1) -> (0.5 cos 256 - sin 256, 0.5 sin 256 + cos
  // 256).
  EXPECT_NEAR(row[64], 0.5 * std::cos(256.0) - std::sin(256.0), 4e-3);
  EXPECT_NEAR(row[65], 0.5 * std::sin(256.0) + std::cos(256.0), 4e-3);
  // Position 256 is row 0 of the second page, physical page 0; 255 the last row of the first.
  std::vector<float> first(128);
  decode_latent_row(format, window.pool().page(0), 256, 0, first);
  EXPECT_SAME_BITS(first, row);
  EXPECT_FALSE(std::isnan(read_all(window.pool(), pages, 255, 256)[0]));
  EXPECT_TRUE(std::isnan(read_all(window.pool(), pages, 254, 255)[0]));
}

/// Rows of V4.1: a scale for every 32 values, the rotated ones too.
LatentFormat grouped_format(int nope, Precision precision) {
  return {.nope = nope,
          .rope = kRope,
          .precision = precision,
          .grouped = GroupedRow{.codes = GroupedCodes::kFp8, .width = nope + kRope}};
}

class KvStoreByHand : public testing::TestWithParam<test::Kernels> {};

TEST_P(KvStoreByHand, RotatedValuesAreQuantisedBehindTheRotation) {
  const LatentFormat format = grouped_format(64, Precision::kReleased);
  const std::vector<PageId> pages{PageId{1}, PageId{0}};
  test::LatentPages window(format, 256, 2);
  std::vector<float> kv(128, 2.0F);  // root mean square 2
  std::vector<float> weight(128, 1.0F);
  weight[3] = 3.1F;    // in BF16 3.09375, and with scale 2^-7 the e4m3 number 3.0
  weight[64] = 0.25F;  // of a pair that turns
  store({{256, kv, pages}}, weight, window.pool(), 1, GetParam());
  const std::vector<float> row = read_all(window.pool(), pages, 256, 257);
  EXPECT_EQ(row[0], 1.0F);
  EXPECT_EQ(row[3], 3.0F);
  // Turned by 256 radians: (0.25, 1) -> (0.9893, -0.2896), in steps of 2^-4 and 2^-5.
  EXPECT_NEAR(0.25 * std::cos(256.0) - std::sin(256.0), 0.9893, 1e-4);
  EXPECT_EQ(row[64], 1.0F);
  EXPECT_EQ(row[65], -0.28125F);
  // 528 bytes: codes, then scales, and nothing of the next row.
  EXPECT_EQ(format.row_bytes(), 128 + 4);
  EXPECT_NE(window.pool().page(0)[131], std::byte{0xFF});
  EXPECT_EQ(window.pool().page(0)[132], std::byte{0xFF});
}

TEST_P(KvStoreByHand, SmallRowsHaveTheSmallestScale) {
  const LatentFormat format = grouped_format(64, Precision::kReleased);
  const std::vector<PageId> pages{PageId{0}};
  test::LatentPages window(format, 256, 1);
  const std::vector<float> kv(128, 1.0F);
  std::vector<float> weight(128, 1e-6F);
  std::fill_n(weight.begin() + 32, 32, 1.0F);
  store({{0, kv, pages}}, weight, window.pool(), 1, GetParam());
  const std::byte* row = window.pool().page(0);
  EXPECT_EQ(row[128], std::byte{127 - 22});  // max(amax, 1e-4) / 448, rounded up
  EXPECT_EQ(row[129], std::byte{127 - 8});
  EXPECT_EQ(read_all(window.pool(), pages, 0, 1)[0], 4 * 0x1p-22F);  // 1e-6 is 4.19 times the scale
}

TEST_P(KvStoreByHand, NaNStaysVisible) {
  const std::vector<PageId> pages{PageId{0}};
  test::LatentPages window(grouped_format(64, Precision::kReleased), 256, 1);
  const std::vector<float> kv(128, 1.0F);
  std::vector<float> weight(128, 1.0F);
  weight[40] = std::nanf("");
  store({{0, kv, pages}}, weight, window.pool(), 1, GetParam());
  EXPECT_TRUE(std::isnan(read_all(window.pool(), pages, 0, 1)[40]));
  EXPECT_EQ(read_all(window.pool(), pages, 0, 1)[41], 1.0F);
}

INSTANTIATE_TEST_SUITE_P(BothKernels, KvStoreByHand, testing::Values(test::kReference, test::kBest));

class KvStoreSimd : public test::EveryTarget {};

TEST_P(KvStoreSimd, AgreesWithTheReference) {
  struct Case {
    Precision precision;
    double norm;  // float32; one BF16 or e4m3 rounding the other way here and there
  };
  for (const auto [precision, norm] :
       {Case{Precision::kExact, 3e-7}, {Precision::kBf16, 1e-4}, {Precision::kReleased, 1e-3}}) {
    for (const LatentFormat& format :
         {LatentFormat{64, kRope, precision}, LatentFormat{448, kRope, precision},
          grouped_format(64, precision), grouped_format(448, precision)}) {
      const auto width = static_cast<std::size_t>(format.width());
      for (const std::int64_t start :
           {std::int64_t{0}, std::int64_t{127}, std::int64_t{250}, std::int64_t{70'000}}) {
        std::vector<PageId> pages(300, PageId::kNone);
        for (std::int32_t i = 0; i < 2; ++i) pages[static_cast<std::size_t>(start / 256 + i)] = PageId{1 - i};
        test::LatentPages got(format, 256, 2), want(format, 256, 2);
        std::vector<float> kv = test::random_values(9 * width, 1, 3.0F);
        for (float& value : kv)
          value = precision == Precision::kExact ? value : std::ldexp(std::rint(value * 64), -6);
        const std::vector<float> weight = test::random_values(width, 2);
        store({{start, kv, pages}}, weight, got.pool(), 2);
        store({{start, kv, pages}}, weight, want.pool(), 1, test::kReference);
        EXPECT_CLOSE(read_all(got.pool(), pages, start, start + 9),
                     read_all(want.pool(), pages, start, start + 9), {.norm = norm});
      }
    }
  }
}

TEST_P(KvStoreSimd, ChunksThreadsAndCompanyDoNotShow) {
  constexpr std::size_t kWidth = 512, kTokens = 300;
  const std::vector<float> kv = test::random_values(kTokens * kWidth, 1),
                           weight = test::random_values(kWidth, 2);
  const std::vector<PageId> pages{PageId{1}, PageId{0}}, other_pages{PageId{2}};
  for (const LatentFormat& format :
       {LatentFormat{448, kRope, Precision::kReleased}, grouped_format(448, Precision::kReleased)}) {
    test::LatentPages whole(format, 256, 3);
    store({{0, kv, pages}}, weight, whole.pool(), 1);
    const std::vector<float> want = read_all(whole.pool(), pages, 0, kTokens);
    for (const std::size_t chunk : {1, 7, 64}) {
      test::LatentPages cut(format, 256, 3);
      for (std::size_t begin = 0; begin < kTokens; begin += chunk) {
        const std::size_t count = std::min(chunk, kTokens - begin);
        store({{3, std::span(kv).first(2 * kWidth), other_pages},
               {static_cast<std::int64_t>(begin), std::span(kv).subspan(begin * kWidth, count * kWidth),
                pages}},
              weight, cut.pool(), 2);
      }
      EXPECT_SAME_BITS(read_all(cut.pool(), pages, 0, kTokens), want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, KvStoreSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
