#include "checkpoint/gguf/block_codec.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "checkpoint/gguf/iq_grids.h"
#include "numeric/bf16.h"
#include "numeric/e2m1.h"
#include "numeric/e8m0.h"
#include "numeric/f16.h"

namespace baleen {
namespace {

constexpr int kGroup = 32;  // elements of a short block
constexpr int kMxfp4Bytes = 17, kQ8Bytes = 34;

template <class T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float f16_at(const std::uint8_t* from) { return f16_to_float(load<F16Bits>(from)); }

/// Nibble `i` of consecutive bytes, low one first.
int nibble(const std::uint8_t* bytes, int i) { return bytes[i / 2] >> (4 * (i % 2)) & 15; }

/// Nibble of element `i` of 32 whose lower halves are elements 0 to 15.
int half_nibble(const std::uint8_t* codes, int i) { return codes[i % 16] >> (i < 16 ? 0 : 4) & 15; }

void decode_q4_0(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  for (int i = 0; i < kGroup; ++i) values[i] = scale * static_cast<float>(half_nibble(block + 2, i) - 8);
}

void decode_q4_1(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block), least = f16_at(block + 2);
  for (int i = 0; i < kGroup; ++i) values[i] = scale * static_cast<float>(half_nibble(block + 4, i)) + least;
}

int five_bits(std::uint32_t high, const std::uint8_t* codes, int i) {
  return half_nibble(codes, i) | static_cast<int>(high >> i & 1U) << 4;
}

void decode_q5_0(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  const auto high = load<std::uint32_t>(block + 2);
  for (int i = 0; i < kGroup; ++i) values[i] = scale * static_cast<float>(five_bits(high, block + 6, i) - 16);
}

void decode_q5_1(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block), least = f16_at(block + 2);
  const auto high = load<std::uint32_t>(block + 4);
  for (int i = 0; i < kGroup; ++i)
    values[i] = scale * static_cast<float>(five_bits(high, block + 8, i)) + least;
}

void decode_q8_0(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  for (int i = 0; i < kGroup; ++i)
    values[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

void decode_mxfp4(const std::uint8_t* block, float* values) {
  const float scale = e8m0_to_float(block[0]);
  for (int i = 0; i < kGroup; ++i)
    values[i] = scale * e2m1_to_float(static_cast<std::uint8_t>(half_nibble(block + 1, i)));
}

constexpr std::array<float, 16> kIq4Values{-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

void decode_iq4_nl(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  for (int i = 0; i < kGroup; ++i)
    values[i] = scale * kIq4Values[static_cast<std::size_t>(half_nibble(block + 2, i))];
}

void decode_iq4_xs(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  const auto high = load<std::uint16_t>(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int own = nibble(block + 4, group) | (high >> (2 * group) & 3) << 4;
    const float factor = scale * static_cast<float>(own - 32);
    const std::uint8_t* const codes = block + 8 + 16 * group;
    for (int i = 0; i < kGroup; ++i)
      values[32 * group + i] = factor * kIq4Values[static_cast<std::size_t>(half_nibble(codes, i))];
  }
}

/// Two bits of element `i` of 256: of each 128, bytes hold those of elements 32 apart.
int two_bits(const std::uint8_t* codes, int i) {
  return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void decode_q2_k(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block + 80), offset = f16_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int own = block[i / 16];
    values[i] = scale * static_cast<float>(own & 15) * static_cast<float>(two_bits(block + 16, i)) -
                offset * static_cast<float>(own >> 4);
  }
}

void decode_q3_k(const std::uint8_t* block, float* values) {
  const std::uint8_t *const mask = block, *const codes = block + 32, *const scales = block + 96;
  const float scale = f16_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    const int low = scales[group % 8] >> (4 * (group / 8)) & 15;
    const int high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
    // A bit that is not set takes 4 off.
    const int code = two_bits(codes, i) - (mask[i % 32] >> (i / 32) & 1 ? 0 : 4);
    values[i] = scale * static_cast<float>((low | high << 4) - 32) * static_cast<float>(code);
  }
}

/// Six bits each of scale and offset of one of eight groups.
struct ScaleOffset {
  float scale, offset;
};
ScaleOffset six_bits(const std::uint8_t* packed, int group) {
  if (group < 4) return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  const int both = packed[group + 4];
  return {static_cast<float>((both & 15) | packed[group - 4] >> 6 << 4),
          static_cast<float>(both >> 4 | packed[group] >> 6 << 4)};
}

/// Four bits of element `i` of 256: of each 64, bytes hold those of elements 32 apart.
int four_bits(const std::uint8_t* codes, int i) {
  return codes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

void decode_q4_k(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block), offset = f16_at(block + 2);
  for (int i = 0; i < 256; ++i) {
    const ScaleOffset own = six_bits(block + 4, i / 32);
    values[i] = scale * own.scale * static_cast<float>(four_bits(block + 16, i)) - offset * own.offset;
  }
}

void decode_q5_k(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block), offset = f16_at(block + 2);
  const std::uint8_t *const high = block + 16, *const codes = block + 48;
  for (int i = 0; i < 256; ++i) {
    const ScaleOffset own = six_bits(block + 4, i / 32);
    const int code = four_bits(codes, i) | (high[i % 32] >> (i / 32) & 1) << 4;
    values[i] = scale * own.scale * static_cast<float>(code) - offset * own.offset;
  }
}

void decode_q6_k(const std::uint8_t* block, float* values) {
  const std::uint8_t *const low = block, *const high = block + 128, *const scales = block + 192;
  const float scale = f16_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int four = low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    const int code = (four | two_bits(high, i) << 4) - 32;
    values[i] =
        scale * static_cast<float>(static_cast<std::int8_t>(scales[i / 16])) * static_cast<float>(code);
  }
}

/// Eight signs of which seven are stored: the number of minus signs is even.
std::uint8_t even_signs(std::uint32_t seven) {
  return static_cast<std::uint8_t>(seven | static_cast<std::uint32_t>(std::popcount(seven) & 1) << 7);
}

/// `count` values of a row of a grid, with signs from bit `first_sign` on.
template <class Grid>
void put_row(const Grid& grid, std::size_t row, float factor, std::uint8_t signs, int first_sign,
             float* values) {
  for (int i = 0; i < Grid::kWidth; ++i) {
    const float value = factor * grid.value(row, i);
    values[i] = signs >> (first_sign + i) & 1 ? -value : value;
  }
}

float quarter_steps(float scale, int steps) { return scale * (0.5F + static_cast<float>(steps)) * 0.25F; }

void decode_iq2_xxs(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  for (int group = 0; group < 8; ++group) {
    const std::uint8_t* const rows = block + 2 + 8 * group;
    const auto rest = load<std::uint32_t>(rows + 4);
    const float factor = quarter_steps(scale, static_cast<int>(rest >> 28));
    for (int i = 0; i < 4; ++i)
      put_row(kIq2XxsGrid, rows[i], factor, even_signs(rest >> (7 * i) & 127U), 0,
              values + 32 * group + 8 * i);
  }
}

void decode_iq2_xs(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  for (int i = 0; i < 32; ++i) {
    const auto code = load<std::uint16_t>(block + 2 + 2 * i);
    const float factor = quarter_steps(scale, nibble(block + 66, i / 2));
    put_row(kIq2XsGrid, code & 511U, factor, even_signs(code >> 9), 0, values + 8 * i);
  }
}

void decode_iq2_s(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  const std::uint8_t *const low = block + 2, *const signs = block + 34, *const high = block + 66;
  for (int i = 0; i < 32; ++i) {
    const auto row = static_cast<std::size_t>(low[i] | (high[i / 4] >> (2 * (i % 4)) & 3) << 8);
    put_row(kIq2SGrid, row, quarter_steps(scale, nibble(block + 74, i / 2)), signs[i], 0, values + 8 * i);
  }
}

void decode_iq3_xxs(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  for (int group = 0; group < 8; ++group) {
    const auto rest = load<std::uint32_t>(block + 66 + 4 * group);
    const float factor = scale * (0.5F + static_cast<float>(rest >> 28)) * 0.5F;
    for (int i = 0; i < 8; ++i) {
      put_row(kIq3XxsGrid, block[2 + 8 * group + i], factor, even_signs(rest >> (7 * (i / 2)) & 127U),
              i % 2 * 4, values + 32 * group + 4 * i);
    }
  }
}

void decode_iq3_s(const std::uint8_t* block, float* values) {
  const float scale = f16_at(block);
  const std::uint8_t *const low = block + 2, *const high = block + 66, *const signs = block + 74;
  for (int i = 0; i < 64; ++i) {
    const float factor = scale * static_cast<float>(1 + 2 * nibble(block + 106, i / 8));
    const auto row = static_cast<std::size_t>(low[i] | (high[i / 8] >> (i % 8) & 1) << 8);
    put_row(kIq3SGrid, row, factor, signs[i / 2], i % 2 * 4, values + 4 * i);
  }
}

using DecodeBlock = void (*)(const std::uint8_t* block, float* values);

DecodeBlock decoder_of(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return [](const std::uint8_t* block, float* values) { *values = load<float>(block); };
    case GgmlType::kF16:
      return [](const std::uint8_t* block, float* values) { *values = f16_at(block); };
    case GgmlType::kBF16:
      return [](const std::uint8_t* block, float* values) { *values = bf16_to_float(load<Bf16Bits>(block)); };
    case GgmlType::kQ4_0:
      return decode_q4_0;
    case GgmlType::kQ4_1:
      return decode_q4_1;
    case GgmlType::kQ5_0:
      return decode_q5_0;
    case GgmlType::kQ5_1:
      return decode_q5_1;
    case GgmlType::kQ8_0:
      return decode_q8_0;
    case GgmlType::kQ2K:
      return decode_q2_k;
    case GgmlType::kQ3K:
      return decode_q3_k;
    case GgmlType::kQ4K:
      return decode_q4_k;
    case GgmlType::kQ5K:
      return decode_q5_k;
    case GgmlType::kQ6K:
      return decode_q6_k;
    case GgmlType::kIq2Xxs:
      return decode_iq2_xxs;
    case GgmlType::kIq2Xs:
      return decode_iq2_xs;
    case GgmlType::kIq2S:
      return decode_iq2_s;
    case GgmlType::kIq3Xxs:
      return decode_iq3_xxs;
    case GgmlType::kIq3S:
      return decode_iq3_s;
    case GgmlType::kIq4Nl:
      return decode_iq4_nl;
    case GgmlType::kIq4Xs:
      return decode_iq4_xs;
    case GgmlType::kMxfp4:
      return decode_mxfp4;
    default:
      return nullptr;
  }
}

const std::uint8_t* bytes_of(std::span<const std::byte> blocks) {
  return reinterpret_cast<const std::uint8_t*>(blocks.data());
}

}  // namespace

void unpack_mxfp4_codes(std::span<const std::byte> blocks, std::span<std::byte> codes) {
  BALEEN_CHECK_EQ(blocks.size() / kMxfp4Bytes * (kGroup / 2), codes.size());
  auto* to = reinterpret_cast<std::uint8_t*>(codes.data());
  for (std::size_t at = 0; at < blocks.size(); at += kMxfp4Bytes, to += kGroup / 2) {
    // Byte i has elements i and i + 16; wanted are 2 i and 2 i + 1.
    const std::uint8_t* const from = bytes_of(blocks) + at + 1;
    for (int i = 0; i < kGroup / 4; ++i) {
      const int first = from[2 * i], second = from[2 * i + 1];
      to[i] = static_cast<std::uint8_t>((first & 15) | (second & 15) << 4);
      to[kGroup / 4 + i] = static_cast<std::uint8_t>(first >> 4 | (second & 0xF0));
    }
  }
}

void unpack_mxfp4_scales(std::span<const std::byte> blocks, std::span<std::byte> scales) {
  BALEEN_CHECK_EQ(blocks.size(), scales.size() * kMxfp4Bytes);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = blocks[i * kMxfp4Bytes];
}

void unpack_q8_0_codes(std::span<const std::byte> blocks, std::span<std::byte> codes) {
  BALEEN_CHECK_EQ(blocks.size() / kQ8Bytes * kGroup, codes.size());
  for (std::size_t i = 0; i < codes.size() / kGroup; ++i)
    std::memcpy(codes.data() + i * kGroup, blocks.data() + i * kQ8Bytes + 2, kGroup);
}

void unpack_q8_0_scales(std::span<const std::byte> blocks, std::span<float> scales) {
  BALEEN_CHECK_EQ(blocks.size(), scales.size() * kQ8Bytes);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = f16_at(bytes_of(blocks) + i * kQ8Bytes);
}

bool has_decoder(GgmlType type) { return decoder_of(type) != nullptr; }

void decode_blocks(GgmlType type, std::span<const std::byte> blocks, std::span<float> values) {
  const GgmlTypeTraits& traits = ggml_type_traits(type);
  const DecodeBlock decode = decoder_of(type);
  BALEEN_CHECK(decode != nullptr);
  const auto count = static_cast<std::int64_t>(blocks.size()) / traits.block_bytes;
  BALEEN_CHECK_EQ(count * traits.block_elements, std::ssize(values));
  for (std::int64_t i = 0; i < count; ++i)
    decode(bytes_of(blocks) + i * traits.block_bytes, values.data() + i * traits.block_elements);
}

}  // namespace baleen
