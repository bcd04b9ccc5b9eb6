// Entries and index keys: by hand, SIMD against the reference, and that neither chunks, threads nor batch
// composition show in the pages.
#include "ops/entry_store/entry_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/e8m0.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

constexpr int kRope = 64, kWidth = 512, kKeyDim = 128;

LatentFormat entry_format(Precision precision) {
  return {.nope = kWidth - kRope,
          .rope = kRope,
          .precision = precision,
          .grouped = GroupedRow{.codes = GroupedCodes::kFp4, .width = kWidth}};
}

/// A layer's pages of entries and keys.
struct Layer {
  int ratio;
  std::vector<float> frequencies = rope_frequencies(160000.0F, kRope, nullptr);
  std::vector<float> key_norm = std::vector<float>(kKeyDim, 1.0F);
  test::LatentPages entries;
  test::IndexKeyPages keys;

  Layer(int layer_ratio, Precision precision, std::int64_t num_pages)
      : ratio(layer_ratio),
        entries(entry_format(precision), 256 / ratio, num_pages),
        keys({kKeyDim, precision}, 256 / ratio, num_pages) {}

  struct Part {
    SequenceSlice slice;  ///< first_row and num_tokens are filled in by `store`
    std::span<const float> latent, key;
  };

  void store(std::vector<Part> parts, int num_threads = 1, test::Kernels kernels = test::kBest) {
    std::vector<float> latent, key;
    std::vector<SequenceSlice> slices;
    for (Part& part : parts) {
      part.slice.first_row = std::ssize(latent) / kWidth;
      part.slice.num_tokens = std::ssize(part.latent) / kWidth;
      slices.push_back(part.slice);
      latent.insert(latent.end(), part.latent.begin(), part.latent.end());
      key.insert(key.end(), part.key.begin(), part.key.end());
    }
    const std::int64_t num_rows = std::ssize(latent) / kWidth;
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    test::TestCpu cpu(num_threads, entry_store_scratch_bytes(kWidth, num_threads), kernels);
    cpu.run<ops::EntryStore>({.latent = {latent.data(), {num_rows, kWidth}},
                              .key = {key.data(), {num_rows, kKeyDim}},
                              .key_norm = key_norm,
                              .frequencies = frequencies,
                              .ratio = ratio,
                              .batch = {tokens, slices},
                              .entries = entries.pool(),
                              .index_keys = keys.pool()});
  }

  [[nodiscard]] std::vector<float> entry(std::span<const PageId> pages, std::int64_t j) const {
    return test::read_row(entries.pool(), pages, j);
  }
  [[nodiscard]] std::vector<float> key(std::span<const PageId> pages, std::int64_t j) const {
    return test::read_row(keys.pool(), pages, j);
  }
  [[nodiscard]] bool is_written(std::span<const PageId> pages, std::int64_t j) const {
    return !std::isnan(entry(pages, j)[0]);
  }
};

SequenceSlice at(std::int64_t start, std::span<const PageId> pages) { return {0, 0, start, pages, {}, 0}; }

class EntryStoreByHand : public testing::TestWithParam<test::Kernels> {};

TEST_P(EntryStoreByHand, RotatesAtTheEntrysFirstPosition) {
  const std::vector<PageId> pages{PageId{1}, PageId{0}};
  for (const int ratio : {1, 2}) {
    Layer layer(ratio, Precision::kExact, 2);
    const std::vector<float> latent(4 * kWidth, 1.0F), key(4 * kKeyDim, 3.0F);
    layer.store({{at(256, pages), latent, key}}, 1, GetParam());
    const std::int64_t first = 256 / ratio;
    for (std::int64_t j = 0; j < 4 / ratio; ++j) {
      const std::vector<float> entry = layer.entry(pages, first + j), index_key = layer.key(pages, first + j);
      // The first pair turns by one radian a position: (1, 1) by that of the entry's first.
      const double angle = 256 + static_cast<double>(j * ratio);
      EXPECT_EQ(entry[kWidth - kRope - 1], 1.0F);
      EXPECT_NEAR(entry[kWidth - kRope], std::cos(angle) - std::sin(angle), 1e-5);
      EXPECT_NEAR(entry[kWidth - kRope + 1], std::sin(angle) + std::cos(angle), 1e-5);
      // Keys are normed, and not transformed.
      EXPECT_NEAR(index_key[0], 1.0, 1e-6);
      EXPECT_NEAR(index_key[kKeyDim - kRope - 1], 1.0, 1e-6);
      EXPECT_NEAR(index_key[kKeyDim - kRope], std::cos(angle) - std::sin(angle), 1e-5);
    }
    EXPECT_FALSE(layer.is_written(pages, first + 4 / ratio));
    EXPECT_FALSE(layer.is_written(pages, first - 1));
  }
}

TEST_P(EntryStoreByHand, RowsThatCompleteNothingAreLeftOut) {
  const std::vector<PageId> pages{PageId{0}};
  Layer layer(2, Precision::kReleased, 1);
  const std::vector<float> latent = test::random_values(3 * kWidth, 1),
                           key = test::random_values(3 * kKeyDim, 2);
  layer.store({{at(4, pages), latent, key}}, 1, GetParam());  // positions 4, 5, 6: entry 2 is complete
  for (std::int64_t j = 0; j < 128; ++j) EXPECT_EQ(layer.is_written(pages, j), j == 2) << j;
}

TEST_P(EntryStoreByHand, EntriesThatExistAreLeftAlone) {
  const std::vector<PageId> pages{PageId{0}, PageId{1}};
  for (const int ratio : {1, 2}) {
    Layer layer(ratio, Precision::kReleased, 2);
    const std::vector<float> latent = test::random_values(8 * kWidth, 1),
                             key = test::random_values(8 * kKeyDim, 2);
    SequenceSlice replayed = at(252, pages);
    replayed.entries_until = 256;
    layer.store({{replayed, latent, key}}, 1, GetParam());
    for (std::int64_t j = 252 / ratio; j < 260 / ratio; ++j)
      EXPECT_EQ(layer.is_written(pages, j), j >= 256 / ratio) << j;
  }
}

/// The scale of a key is the power of two that 6 times it is no less than the largest value: of 6 it is 1, of
/// what is a little more 2. Zeros have the smallest normal one. Those of entries are the nearest of e4m3, for
/// every 16 values, the rotated ones too.
TEST_P(EntryStoreByHand, ScalesOfKeysAndEntries) {
  const std::vector<PageId> pages{PageId{0}};
  Layer layer(1, Precision::kReleased, 1);
  std::vector<float> latent(2 * kWidth, 0.0F), key(2 * kKeyDim, 0.0F);
  latent[0] = 7.0F;               // 7 / 6 is nearest to 1.125
  latent[16] = 12.0F;             // 2
  latent[kWidth - kRope] = 0.5F;  // position 0: not turned. 1 / 12 is nearest to 0.0859375
  latent[32] = -1e6F;             // 448
  // Of norm 1: half of the values are 0, so the others become sqrt(2).
  std::fill_n(key.begin(), kKeyDim / 2, 1.0F);
  layer.store({{at(0, pages), latent, key}}, 1, GetParam());
  const std::vector<float> entry = layer.entry(pages, 0);
  EXPECT_EQ(entry[0], 6.75F);
  EXPECT_EQ(entry[16], 12.0F);
  EXPECT_EQ(entry[32], -6 * 448.0F);
  EXPECT_EQ(entry[kWidth - kRope], 6 * 0.0859375F);
  EXPECT_EQ(entry[48], 0.0F);
  const std::byte* row = layer.entries.pool().page(0);
  EXPECT_EQ(row[256 + 3], std::byte{1});  // 2^-9, that of zeros
  const auto* scales = reinterpret_cast<const std::uint8_t*>(layer.keys.pool().page(0) + 256 * kKeyDim / 2);
  // sqrt(2) / 6 is below 2^-2.
  EXPECT_EQ(e8m0_to_float(scales[0]), 0.25F);
  EXPECT_EQ(e8m0_to_float(scales[3]), 0x1p-126F);
  EXPECT_EQ(layer.key(pages, 0)[0], 1.5F);  // 5.66 is nearest to 6
  EXPECT_EQ(layer.key(pages, 1), std::vector<float>(kKeyDim, 0.0F));
}

TEST_P(EntryStoreByHand, TheKeysNormHasNoEpsilonToSpeakOf) {
  const std::vector<PageId> pages{PageId{0}};
  Layer layer(1, Precision::kExact, 1);
  const std::vector<float> latent(2 * kWidth, 1.0F);
  std::vector<float> key = test::random_values(2 * kKeyDim, 1);
  for (std::size_t i = 0; i < kKeyDim; ++i) key[kKeyDim + i] = key[i] * 0x1p-20F;
  layer.store({{at(0, pages), latent, key}}, 1, GetParam());
  const std::vector<float> first = layer.key(pages, 0), second = layer.key(pages, 1);
  EXPECT_CLOSE(std::span(second).first(kKeyDim - kRope), std::span(first).first(kKeyDim - kRope),
               {.norm = 1e-6});
}

TEST_P(EntryStoreByHand, NaNStaysVisible) {
  const std::vector<PageId> pages{PageId{0}};
  for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
    Layer layer(1, precision, 1);
    std::vector<float> latent(kWidth, 1.0F);
    const std::vector<float> key(kKeyDim, 1.0F);
    latent[37] = std::nanf("");
    layer.store({{at(0, pages), latent, key}}, 1, GetParam());
    EXPECT_TRUE(std::isnan(layer.entry(pages, 0)[37])) << precision_name(precision);
    EXPECT_NEAR(layer.entry(pages, 0)[0], 1.0, 1.0 / 32);  // 1 / 6 is nearest to 11 / 64
  }
}

INSTANTIATE_TEST_SUITE_P(BothKernels, EntryStoreByHand, testing::Values(test::kReference, test::kBest));

class EntryStoreSimd : public test::EveryTarget {};

/// Multiples of 2^-6: BF16 values.
std::vector<float> coarse(std::size_t count, std::uint32_t seed) {
  std::vector<float> values = test::random_values(count, seed);
  for (float& value : values) value = std::ldexp(std::rint(value * 64), -6);
  return values;
}

TEST_P(EntryStoreSimd, AgreesWithTheReference) {
  struct Case {
    Precision precision;
    double norm;  // float32; one BF16 or FP4 rounding the other way here and there
  };
  for (const auto [precision, norm] :
       {Case{Precision::kExact, 3e-7}, {Precision::kBf16, 1e-4}, {Precision::kReleased, 4e-3}}) {
    for (const int ratio : {1, 2}) {
      for (const std::int64_t start : {0, 127, 250, 255, 70'000}) {
        constexpr std::int64_t kTokens = 9;
        std::vector<PageId> pages(static_cast<std::size_t>(start / 256), PageId::kNone);
        pages.insert(pages.end(), {PageId{1}, PageId{0}});
        Layer got(ratio, precision, 2), want(ratio, precision, 2);
        got.key_norm = want.key_norm = test::random_values(kKeyDim, 5);
        const std::vector<float> latent = coarse(kTokens * kWidth, 3), key = coarse(kTokens * kKeyDim, 4);
        got.store({{at(start, pages), latent, key}}, 2);
        want.store({{at(start, pages), latent, key}}, 1, test::kReference);
        for (std::int64_t j = start / ratio; j < (start + kTokens) / ratio; ++j) {
          EXPECT_CLOSE(got.entry(pages, j), want.entry(pages, j), {.norm = norm})
              << precision_name(precision) << ", ratio " << ratio << ", entry " << j;
          EXPECT_CLOSE(got.key(pages, j), want.key(pages, j), {.norm = 10 * norm}) << "entry " << j;
        }
      }
    }
  }
}

TEST_P(EntryStoreSimd, ChunksThreadsAndBatchCompositionDoNotShow) {
  constexpr std::size_t kTokens = 261;
  const std::vector<float> latent = coarse(kTokens * kWidth, 1), key = coarse(kTokens * kKeyDim, 2);
  const std::vector<PageId> pages{PageId{1}, PageId{0}}, other_pages{PageId{2}};
  for (const int ratio : {1, 2}) {
    Layer whole(ratio, Precision::kReleased, 3);
    whole.store({{at(0, pages), latent, key}});
    for (const std::size_t chunk : {1, 7, 64}) {
      Layer cut(ratio, Precision::kReleased, 3);
      for (std::size_t begin = 0; begin < kTokens; begin += chunk) {
        const std::size_t count = std::min(chunk, kTokens - begin);
        cut.store(
            {{at(3, other_pages), std::span(latent).first(2 * kWidth), std::span(key).first(2 * kKeyDim)},
             {at(static_cast<std::int64_t>(begin), pages),
              std::span(latent).subspan(begin * kWidth, count * kWidth),
              std::span(key).subspan(begin * kKeyDim, count * kKeyDim)}},
            2);
      }
      for (std::int64_t j = 0; j < static_cast<std::int64_t>(kTokens) / ratio; ++j) {
        ASSERT_SAME_BITS(cut.entry(pages, j), whole.entry(pages, j)) << j;
        ASSERT_SAME_BITS(cut.key(pages, j), whole.key(pages, j)) << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, EntryStoreSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
