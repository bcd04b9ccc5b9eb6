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

class KvStoreSimd : public test::EveryTarget {};

TEST_P(KvStoreSimd, AgreesWithTheReference) {
  struct Case {
    Precision precision;
    double norm;  // float32; one BF16 or e4m3 rounding the other way here and there
  };
  for (const auto [precision, norm] :
       {Case{Precision::kExact, 3e-7}, {Precision::kBf16, 1e-4}, {Precision::kReleased, 1e-3}}) {
    for (const int nope : {64, 448}) {
      const LatentFormat format{nope, kRope, precision};
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
  const LatentFormat format{448, kRope, Precision::kReleased};
  constexpr std::size_t kWidth = 512, kTokens = 300;
  const std::vector<float> kv = test::random_values(kTokens * kWidth, 1),
                           weight = test::random_values(kWidth, 2);
  const std::vector<PageId> pages{PageId{1}, PageId{0}}, other_pages{PageId{2}};
  test::LatentPages whole(format, 256, 3);
  store({{0, kv, pages}}, weight, whole.pool(), 1);
  const std::vector<float> want = read_all(whole.pool(), pages, 0, kTokens);
  for (const std::size_t chunk : {1, 7, 64}) {
    test::LatentPages cut(format, 256, 3);
    for (std::size_t begin = 0; begin < kTokens; begin += chunk) {
      const std::size_t count = std::min(chunk, kTokens - begin);
      store(
          {{3, std::span(kv).first(2 * kWidth), other_pages},
           {static_cast<std::int64_t>(begin), std::span(kv).subspan(begin * kWidth, count * kWidth), pages}},
          weight, cut.pool(), 2);
    }
    EXPECT_SAME_BITS(read_all(cut.pool(), pages, 0, kTokens), want);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, KvStoreSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
