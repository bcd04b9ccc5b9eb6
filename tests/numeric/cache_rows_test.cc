// Cache rows: offsets and strides of the cache specification, and that nothing is lost against the released
// rounding.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "numeric/index_key.h"
#include "numeric/latent_row.h"

namespace baleen {
namespace {

constexpr LatentFormat kReleasedRow{448, 64, Precision::kReleased};
constexpr LatentFormat kSmallRow{64, 64, Precision::kReleased};  // head_dim 128
constexpr LatentFormat kV32Row{512, 64, Precision::kReleased, LatentLayout::kV32};
constexpr IndexKeyFormat kReleasedKey{128, Precision::kReleased};

/// BF16 values over many binades.
std::vector<float> bf16_values(std::size_t count) {
  std::vector<float> values;
  for (const int bits : *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(0, 1 << 14))) {
    const float mantissa = static_cast<float>(bits % 512 - 256) / 64.0F;
    values.push_back(std::ldexp(mantissa, bits / 512 - 16));
  }
  return values;
}

std::uint8_t byte_at(const std::vector<std::byte>& page, std::int64_t offset) {
  return static_cast<std::uint8_t>(page[static_cast<std::size_t>(offset)]);
}

TEST(LatentRow, SizesOfTheSpecification) {
  EXPECT_EQ(kReleasedRow.data_bytes(), 576);
  EXPECT_EQ(kReleasedRow.scale_bytes(), 8);
  EXPECT_EQ(kReleasedRow.row_bytes(), 584);
  EXPECT_EQ(kReleasedRow.page_stride_bytes(256), 149'760);
  EXPECT_EQ(kReleasedRow.page_stride_bytes(64), 37'440);
  EXPECT_EQ(kReleasedRow.page_stride_bytes(2), 1'728);
  EXPECT_EQ((LatentFormat{448, 64, Precision::kBf16}).row_bytes(), 1024);
  EXPECT_EQ((LatentFormat{448, 64, Precision::kExact}).row_bytes(), 2048);
  EXPECT_EQ(kSmallRow.data_bytes(), 64 + 128);
  EXPECT_EQ(kSmallRow.scale_bytes(), 8);  // one scale, padded
}

TEST(LatentRow, OffsetsOfTheSpecification) {
  constexpr int kRows = 64, kRow = 5;
  std::vector<std::byte> page(static_cast<std::size_t>(kReleasedRow.page_stride_bytes(kRows)),
                              std::byte{0xEE});
  std::vector<float> values(512, 0.0F);
  values[0] = 448.0F;   // block 0: scale 1, code 126
  values[65] = 450.0F;  // block 1: scale 2, code of 225 -> 224
  values[447] = -1.0F;  // block 6: 1 / 448 -> 2^-8
  values[448] = 3.0F;
  values[511] = -0.5F;
  encode_latent_row(kReleasedRow, page.data(), kRows, kRow, values);
  EXPECT_EQ(byte_at(page, kRow * 576), 126);
  EXPECT_EQ(byte_at(page, kRow * 576 + 65), float_to_e4m3(225.0F));
  EXPECT_EQ(byte_at(page, kRow * 576 + 447), float_to_e4m3(-256.0F));
  EXPECT_EQ(byte_at(page, kRow * 576 + 448), 0x40);  // 3.0 is 0x4040, little endian
  EXPECT_EQ(byte_at(page, kRow * 576 + 449), 0x40);
  EXPECT_EQ(byte_at(page, kRow * 576 + 575), 0xBF);  // -0.5 is 0xBF00
  EXPECT_EQ(byte_at(page, kRows * 576 + kRow * 8), 127);
  EXPECT_EQ(byte_at(page, kRows * 576 + kRow * 8 + 1), 128);
  EXPECT_EQ(byte_at(page, kRows * 576 + kRow * 8 + 2), 127 - 22);
  EXPECT_EQ(byte_at(page, kRows * 576 + kRow * 8 + 6), 127 - 8);
  // Neither neighbours nor padding are touched.
  EXPECT_EQ(byte_at(page, kRow * 576 - 1), 0xEE);
  EXPECT_EQ(byte_at(page, (kRow + 1) * 576), 0xEE);
  EXPECT_EQ(byte_at(page, kRows * 576 + kRow * 8 + 7), 0xEE);
  EXPECT_EQ(byte_at(page, kRows * 576 + kRow * 8 - 1), 0xEE);
}

TEST(LatentRow, EqualsTheSimulatedRounding) {
  EXPECT_TRUE(rc::check([] {
    const LatentFormat format = *rc::gen::element(kReleasedRow, kSmallRow);
    const int num_rows = *rc::gen::element(2, 64, 256), row = *rc::gen::inRange(0, num_rows);
    const std::vector<float> values = bf16_values(static_cast<std::size_t>(format.width()));
    std::vector<std::byte> page(static_cast<std::size_t>(format.page_stride_bytes(num_rows)));
    encode_latent_row(format, page.data(), num_rows, row, values);
    std::vector<float> got(values.size()), want = values;
    decode_latent_row(format, page.data(), num_rows, row, got);
    simulate_fp8(std::span(want).first(static_cast<std::size_t>(format.nope)), kLatentGroup);
    RC_ASSERT(got == want);
  }));
}

TEST(LatentRow, RowsOfV32) {
  EXPECT_EQ(kV32Row.row_bytes(), 656);
  EXPECT_EQ(kV32Row.page_stride_bytes(64), 64 * 656);
  EXPECT_EQ(kV32Row.width(), 576);
  EXPECT_EQ(kV32Row.value_width(), 512);
  constexpr int kRows = 2, kRow = 1;
  std::vector<std::byte> page(static_cast<std::size_t>(kV32Row.page_stride_bytes(kRows)), std::byte{0xEE});
  std::vector<float> values(576, 0.0F), got(576);
  values[0] = 448.0F;   // block 0: scale 1
  values[130] = -3.0F;  // block 1: scale 3 / 448
  values[131] = 1.5F;
  values[512] = 1.0F + 1 / 64.0F;  // rotary: BF16
  encode_latent_row(kV32Row, page.data(), kRows, kRow, values);
  float scales[4];
  std::memcpy(scales, page.data() + 656 + 512, sizeof(scales));
  EXPECT_EQ(scales[0], 1.0F);
  EXPECT_EQ(scales[1], 3.0F / 448);
  EXPECT_EQ(scales[2], 1e-4F / 448);
  EXPECT_EQ(byte_at(page, 656), float_to_e4m3(448.0F));
  EXPECT_EQ(byte_at(page, 656 + 130), float_to_e4m3(-448.0F));
  EXPECT_EQ(byte_at(page, 655), 0xEE);  // the row before
  decode_latent_row(kV32Row, page.data(), kRows, kRow, got);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(got[i], round_bf16(values[i])) << i;
  }
}

TEST(LatentRow, PlainFormatsKeepTheirValues) {
  EXPECT_TRUE(rc::check([] {
    const Precision precision = *rc::gen::element(Precision::kBf16, Precision::kExact);
    const LatentFormat format{64, 64, precision};
    std::vector<float> values = bf16_values(128);
    if (precision == Precision::kExact) values[7] = 1.0F + 0x1p-23F;
    std::vector<std::byte> page(static_cast<std::size_t>(format.page_stride_bytes(4)));
    encode_latent_row(format, page.data(), 4, 3, values);
    std::vector<float> got(128);
    decode_latent_row(format, page.data(), 4, 3, got);
    RC_ASSERT(got == values);
  }));
}

TEST(LatentRow, NaNStaysVisible) {
  std::vector<float> values(512, 1.0F), got(512);
  values[100] = values[500] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> page(static_cast<std::size_t>(kReleasedRow.page_stride_bytes(2)));
  encode_latent_row(kReleasedRow, page.data(), 2, 1, values);
  decode_latent_row(kReleasedRow, page.data(), 2, 1, got);
  EXPECT_TRUE(std::isnan(got[100]));
  EXPECT_TRUE(std::isnan(got[500]));
  EXPECT_EQ(got[101], 1.0F);
}

TEST(IndexKey, SizesAndOffsetsOfTheSpecification) {
  EXPECT_EQ(kReleasedKey.row_bytes(), 68);
  EXPECT_EQ(kReleasedKey.page_stride_bytes(64), 4352);
  std::vector<std::byte> page(4352, std::byte{0xEE});
  std::vector<float> values(128, 0.0F);
  values[0] = 6.0F;     // block 0: scale 1; low nibble of byte 0
  values[1] = -0.5F;    // high nibble
  values[127] = 12.0F;  // block 3: scale 2, code 7
  encode_index_key(kReleasedKey, page.data(), 64, 9, values);
  EXPECT_EQ(byte_at(page, 9 * 64), 0x97);
  EXPECT_EQ(byte_at(page, 9 * 64 + 63), 0x70);
  EXPECT_EQ(byte_at(page, 64 * 64 + 9 * 4), 127);
  EXPECT_EQ(byte_at(page, 64 * 64 + 9 * 4 + 1), 1);  // an empty block: 2^-126
  EXPECT_EQ(byte_at(page, 64 * 64 + 9 * 4 + 3), 128);
  EXPECT_EQ(byte_at(page, 10 * 64), 0xEE);
  EXPECT_EQ(byte_at(page, 64 * 64 + 10 * 4), 0xEE);
}

TEST(IndexKey, EqualsTheSimulatedRounding) {
  EXPECT_TRUE(rc::check([] {
    const int num_rows = *rc::gen::element(2, 64, 256), row = *rc::gen::inRange(0, num_rows);
    const std::vector<float> values = bf16_values(128);
    std::vector<std::byte> page(static_cast<std::size_t>(kReleasedKey.page_stride_bytes(num_rows)));
    encode_index_key(kReleasedKey, page.data(), num_rows, row, values);
    std::vector<float> got(128), want = values;
    decode_index_key(kReleasedKey, page.data(), num_rows, row, got);
    simulate_fp4(want, kIndexerGroup);
    RC_ASSERT(got == want);
  }));
}

TEST(IndexKey, PlainFormatsKeepTheirValues) {
  EXPECT_TRUE(rc::check([] {
    const IndexKeyFormat format{128, *rc::gen::element(Precision::kBf16, Precision::kExact)};
    const std::vector<float> values = bf16_values(128);
    std::vector<std::byte> page(static_cast<std::size_t>(format.page_stride_bytes(3)));
    encode_index_key(format, page.data(), 3, 2, values);
    std::vector<float> got(128);
    decode_index_key(format, page.data(), 3, 2, got);
    RC_ASSERT(got == values);
  }));
}

}  // namespace
}  // namespace baleen
