// SIMD coding of cache rows against the scalar forms, to the bit, and the SIMD Hadamard transform against the
// sums.
#include "tests/support/every_target.h"

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "numeric/e2m1.h"
#include "numeric/hadamard.h"
#include "numeric/latent_row.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cache_rows_simd_test.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/hadamard-inl.h"
#include "numeric/index_key-inl.h"
#include "numeric/latent_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

using Tag = hn::CappedTag<float, 16>;

void encode_simd(const LatentFormat& format, std::byte* page, int rows_per_page, int row,
                 const float* values) {
  encode_latent_row_simd(Tag(), format, page, rows_per_page, row, values);
}
void decode_simd(const LatentFormat& format, const std::byte* page, int rows_per_page, int row,
                 float* values) {
  const LatentRowPlace place = place_of_simd(format, page, rows_per_page, row);
  for (int part = 0; part < format.width() / kLatentGroup; ++part) {
    decode_latent_part(Tag(), format, place, part, values + part * kLatentGroup);
  }
}
std::uint8_t quantise_doubled(const float* values, std::int8_t* to) {
  return quantise_fp4_doubled(Tag(), values, to);
}
void hadamard(float* values, std::size_t size) { hadamard_transform_simd(Tag(), values, size); }

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(encode_simd);
HWY_EXPORT(decode_simd);
HWY_EXPORT(quantise_doubled);
HWY_EXPORT(hadamard);

namespace {

class CacheRowsSimd : public test::EveryTarget {};

constexpr int kRows = 5;

/// Rows with zeros, infinities, NaN and magnitudes from below the smallest scale to near the end of float32.
std::vector<float> hard_row(int width, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values = test::random_values(static_cast<std::size_t>(width), seed);
  const float size = std::ldexp(1.0F, static_cast<int>(random() % 240) - 120);
  for (float& value : values) value *= size;
  if (seed % 4 == 1) values[random() % values.size()] = std::nanf("");
  if (seed % 4 == 2) values[random() % values.size()] = -std::numeric_limits<float>::infinity();
  if (seed % 4 == 3) std::fill_n(values.begin() + 64, 64, -0.0F);
  return values;
}

TEST_P(CacheRowsSimd, LatentRowsEqualTheScalarForms) {
  for (const Precision precision : {Precision::kReleased, Precision::kBf16, Precision::kExact}) {
    const auto grouped = [&](int nope, GroupedCodes codes) {
      return LatentFormat{
          .nope = nope, .rope = 64, .precision = precision, .grouped = GroupedRow{codes, nope + 64}};
    };
    for (const LatentFormat& format : {LatentFormat{64, 64, precision}, LatentFormat{448, 64, precision},
                                       grouped(64, GroupedCodes::kFp8), grouped(448, GroupedCodes::kFp8),
                                       grouped(64, GroupedCodes::kFp4), grouped(448, GroupedCodes::kFp4)}) {
      for (std::uint32_t seed = 0; seed < 100; ++seed) {
        const std::vector<float> values = hard_row(format.width(), seed);
        const int row = static_cast<int>(seed) % kRows;
        std::vector<std::byte> got(static_cast<std::size_t>(format.page_stride_bytes(kRows))), want = got;
        encode_latent_row(format, want.data(), kRows, row, values);
        HWY_DYNAMIC_DISPATCH(encode_simd)(format, got.data(), kRows, row, values.data());
        ASSERT_EQ(got, want) << "seed " << seed;
        std::vector<float> decoded(values.size()), expected(values.size());
        decode_latent_row(format, want.data(), kRows, row, expected);
        HWY_DYNAMIC_DISPATCH(decode_simd)(format, want.data(), kRows, row, decoded.data());
        ASSERT_EQ(test::difference(decoded, expected, {}), "") << "seed " << seed;
      }
    }
  }
}

TEST_P(CacheRowsSimd, EveryCodeDecodes) {
  const LatentFormat format{448, 64, Precision::kReleased};
  std::vector<std::byte> page(static_cast<std::size_t>(format.page_stride_bytes(1)));
  for (std::size_t i = 0; i < 448; ++i) page[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < 7; ++i) page[576 + i] = static_cast<std::byte>(105 + 3 * i);
  std::vector<float> got(512), want(512);
  decode_latent_row(format, page.data(), 1, 0, want);
  HWY_DYNAMIC_DISPATCH(decode_simd)(format, page.data(), 1, 0, got.data());
  EXPECT_EQ(test::difference(got, want, {}), "");
}

TEST_P(CacheRowsSimd, EveryCodeOfGroupedRowsDecodes) {
  for (const GroupedCodes codes : {GroupedCodes::kFp8, GroupedCodes::kFp4}) {
    const LatentFormat format{.nope = 448, .rope = 64, .grouped = GroupedRow{codes, 512}};
    for (int seed = 0; seed < 16; ++seed) {
      std::vector<std::byte> page(static_cast<std::size_t>(format.page_stride_bytes(1)));
      for (std::size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(i + i / 256);
      // Scales: of positions any power of two that leaves numbers, of entries all codes, NaN too.
      for (std::size_t i = static_cast<std::size_t>(format.grouped->code_bytes()); i < page.size(); ++i) {
        page[i] = static_cast<std::byte>(
            codes == GroupedCodes::kFp8 ? 100 + i % 50 : 16 * static_cast<std::size_t>(seed) + i % 16);
      }
      std::vector<float> got(512), want(512);
      decode_latent_row(format, page.data(), 1, 0, want);
      HWY_DYNAMIC_DISPATCH(decode_simd)(format, page.data(), 1, 0, got.data());
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (!std::isnan(want[i])) {
          ASSERT_EQ(std::signbit(got[i]), std::signbit(want[i])) << i;
        }
      }
      ASSERT_EQ(test::difference(got, want, {}), "");
    }
  }
}

TEST_P(CacheRowsSimd, DoubledFp4EqualsTheScalarCodes) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> values = hard_row(128, seed);
    for (std::size_t begin = 0; begin < values.size(); begin += kIndexerGroup) {
      const auto block = std::span(values).subspan(begin, kIndexerGroup);
      std::vector<std::uint8_t> codes(kIndexerGroup);
      std::vector<std::int8_t> doubled(kIndexerGroup);
      const std::uint8_t scale = quantise_fp4_block(block, codes);
      ASSERT_EQ(HWY_DYNAMIC_DISPATCH(quantise_doubled)(block.data(), doubled.data()), scale);
      for (std::size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(doubled[i], 2 * e2m1_to_float(codes[i]));
    }
  }
}

TEST_P(CacheRowsSimd, HadamardEqualsTheSums) {
  for (const std::size_t size : {16, 32, 128, 256}) {
    std::vector<float> got = test::random_values(size, 5), want = got;
    const std::vector<float> original = got;
    hadamard_transform(want);
    HWY_DYNAMIC_DISPATCH(hadamard)(got.data(), size);
    EXPECT_CLOSE(got, want, {.norm = 3e-7});
    HWY_DYNAMIC_DISPATCH(hadamard)(got.data(), size);
    EXPECT_CLOSE(got, original, {.norm = 6e-7});  // its own inverse
  }
}

TEST(Hadamard, FourByHand) {
  std::vector<float> values{1, 2, 3, 4};
  hadamard_transform(values);
  EXPECT_EQ(values, (std::vector<float>{5, -1, -2, 0}));  // (sum, 1-2+3-4, 1+2-3-4, 1-2-3+4) / 2
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, CacheRowsSimd, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
#endif  // HWY_ONCE
