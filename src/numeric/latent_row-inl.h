// SIMD forms of latent_row.h, equal to the scalar ones to the bit. Included once per instruction set
// (Highway).

#if defined(BALEEN_NUMERIC_LATENT_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_LATENT_ROW_INL_H_
#undef BALEEN_NUMERIC_LATENT_ROW_INL_H_
#else
#define BALEEN_NUMERIC_LATENT_ROW_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numeric/e4m3.h"
#include "numeric/latent_row.h"
#include "numeric/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Float32 of e4m3 codes, still to be multiplied by 256: a code moved into float16's fields reads as value /
/// 256, and float16's subnormals cost nothing to convert, unlike float32's.
template <class D>
HWY_INLINE hn::Vec<D> load_e4m3_over256(D d, const std::uint8_t* codes) {
  const hn::Rebind<std::int8_t, D> d8;
  const hn::Rebind<std::int16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto wide = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(codes)));
  // Bit 14 got a copy of the sign.
  const auto fields = hn::And(hn::ShiftLeft<7>(wide), hn::Set(d16, static_cast<std::int16_t>(0xBFFF)));
  const auto value = hn::PromoteTo(d, hn::BitCast(half, fields));
  // The largest magnitude is e4m3's NaN, which float16's fields read as 480 / 256.
  const auto is_nan = hn::Eq(hn::Abs(value), hn::Set(d, 480.0F / 256.0F));
  return hn::IfThenElse(is_nan, hn::NaN(d), value);
}

template <class D>
HWY_INLINE hn::Vec<D> load_bf16_simd(D d, const std::byte* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

/// `v` holds bfloat16 values, or is rounded to them.
template <class D>
HWY_INLINE void store_bf16_simd(D d, hn::Vec<D> v, std::byte* to) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto high = hn::ShiftRight<16>(hn::BitCast(d32, round_bf16_simd(d, v)));
  hn::StoreU(hn::TruncateTo(d16, high), d16, reinterpret_cast<std::uint16_t*>(to));
}

/// Codes of a float32 vector already divided by the block's scale.
template <class D>
HWY_INLINE void store_e4m3(D d, hn::Vec<D> v, std::uint8_t* codes) {
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const auto rounded = round_e4m3(d, v);
  const auto magnitude = hn::Abs(rounded);
  const auto normal = hn::Sub(hn::ShiftRight<20>(hn::BitCast(di, magnitude)), hn::Set(di, (127 - 7) << 3));
  const auto subnormal = hn::ConvertTo(di, hn::Mul(magnitude, hn::Set(d, 0x1p9F)));
  const auto is_small = hn::RebindMask(di, hn::Lt(magnitude, hn::Set(d, 0x1p-6F)));
  const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(di, rounded)), hn::Set(di, 0x80));
  auto code = hn::Or(sign, hn::IfThenElse(is_small, subnormal, normal));
  code = hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(v)), hn::Set(di, 0x7F), code);
  hn::StoreU(hn::DemoteTo(d8, code), d8, codes);
}

/// Where a row's values and scales are.
struct LatentRowPlace {
  const std::byte* data = nullptr;
  const std::uint8_t* scales = nullptr;
};

HWY_INLINE LatentRowPlace place_of_simd(const LatentFormat& format, const std::byte* page, int rows_per_page,
                                        int row) {
  if (format.has_groups()) {
    const std::byte* data = page + row * format.data_bytes();
    return {data, reinterpret_cast<const std::uint8_t*>(data + format.grouped->code_bytes())};
  }
  return {page + row * format.data_bytes(),
          reinterpret_cast<const std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                row * format.scale_bytes())};
}

/// Float32 of e2m1 codes, one a byte, still to be multiplied by 2^14: as load_e4m3_over256.
template <class D>
HWY_INLINE hn::Vec<D> load_e2m1_over16384(D d, const std::uint8_t* codes) {
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto wide = hn::PromoteTo(d16, hn::LoadU(d8, codes));
  const auto magnitude = hn::ShiftLeft<9>(hn::And(wide, hn::Set(d16, std::uint16_t{7})));
  const auto sign = hn::ShiftLeft<12>(hn::And(wide, hn::Set(d16, std::uint16_t{8})));
  return hn::PromoteTo(d, hn::BitCast(half, hn::Or(magnitude, sign)));
}

/// decode_latent_part of rows with groups.
template <class D>
HWY_INLINE void decode_grouped_part(D d, const GroupedRow& format, const LatentRowPlace& row, int part,
                                    float* to) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  constexpr auto kValues = static_cast<std::size_t>(kLatentGroup);
  const auto group = static_cast<std::size_t>(format.group());
  const std::uint8_t* scales = row.scales + static_cast<std::size_t>(part) * kValues / group;
  if (format.codes == GroupedCodes::kFp8) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row.data) + part * kLatentGroup;
    for (std::size_t i = 0; i < kValues; i += kLanes) {
      const auto scale = hn::Set(d, e8m0_to_float(scales[i / group]) * 256.0F);
      hn::StoreU(hn::Mul(load_e4m3_over256(d, codes + i), scale), d, to + i);
    }
    return;
  }
  const hn::FixedTag<std::uint8_t, 16> d8;
  const auto* packed = reinterpret_cast<const std::uint8_t*>(row.data) + part * kLatentGroup / 2;
  alignas(16) std::uint8_t codes[kValues];
  for (std::size_t i = 0; i < kValues; i += 32) {
    const auto bytes = hn::LoadU(d8, packed + i / 2);
    const auto low = hn::And(bytes, hn::Set(d8, std::uint8_t{15}));
    const auto high = hn::ShiftRight<4>(bytes);
    hn::Store(hn::InterleaveLower(d8, low, high), d8, codes + i);
    hn::Store(hn::InterleaveUpper(d8, low, high), d8, codes + i + 16);
  }
  for (std::size_t i = 0; i < kValues; i += kLanes) {
    const auto scale = hn::Set(d, e4m3_to_float(scales[i / group]) * 16384.0F);
    hn::StoreU(hn::Mul(load_e2m1_over16384(d, codes + i), scale), d, to + i);
  }
}

/// Values [64 part, 64 part + 64) of a row; nope and width are multiples of 64.
template <class D>
HWY_INLINE void decode_latent_part(D d, const LatentFormat& format, const LatentRowPlace& row, int part,
                                   float* to) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const std::size_t begin = static_cast<std::size_t>(part) * kLatentGroup;
  if (format.precision == Precision::kExact) {
    std::memcpy(to, row.data + begin * sizeof(float), kLatentGroup * sizeof(float));
    return;
  }
  if (format.has_groups()) return decode_grouped_part(d, *format.grouped, row, part, to);
  if (format.precision == Precision::kReleased && part < format.num_scales()) {
    // At most 2^119 for a finite row (infinities are clamped when the scale is chosen): the product is
    // finite.
    const auto scale = hn::Set(d, e8m0_to_float(row.scales[part]) * 256.0F);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row.data) + begin;
    for (std::size_t i = 0; i < kLatentGroup; i += kLanes) {
      hn::StoreU(hn::Mul(load_e4m3_over256(d, codes + i), scale), d, to + i);
    }
    return;
  }
  const std::byte* from = format.precision == Precision::kBf16
                              ? row.data + begin * 2
                              : row.data + format.nope + (begin - static_cast<std::size_t>(format.nope)) * 2;
  for (std::size_t i = 0; i < kLatentGroup; i += kLanes)
    hn::StoreU(load_bf16_simd(d, from + 2 * i), d, to + i);
}

/// Sixteen values to e2m1 codes, two a byte; returns the e4m3 code of their scale.
template <class D>
HWY_INLINE std::uint8_t quantise_entry_group(D d, const float* values, std::uint8_t* packed) {
  constexpr std::size_t kValues = 16;
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const std::uint8_t code = entry_scale_code({values, kValues});
  alignas(16) std::uint8_t codes[kValues] = {};
  const float scale = e4m3_to_float(code);
  if (scale == scale) {
    for (std::size_t i = 0; i < kValues; i += hn::Lanes(d)) {
      const auto rounded = round_e2m1(d, hn::Div(hn::LoadU(d, values + i), hn::Set(d, scale)));
      const auto magnitude = hn::Abs(rounded);
      const auto normal =
          hn::Sub(hn::ShiftRight<22>(hn::BitCast(di, magnitude)), hn::Set(di, (127 - 1) << 1));
      const auto small = hn::ConvertTo(di, hn::Add(magnitude, magnitude));
      const auto is_small = hn::RebindMask(di, hn::Lt(magnitude, hn::Set(d, 1.0F)));
      const auto sign = hn::And(hn::ShiftRight<28>(hn::BitCast(di, rounded)), hn::Set(di, 8));
      hn::StoreU(hn::DemoteTo(d8, hn::Or(sign, hn::IfThenElse(is_small, small, normal))), d8, codes + i);
    }
  }
  for (std::size_t i = 0; i < kValues; i += 2)
    packed[i / 2] = static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4);
  return code;
}

/// encode_latent_row of rows with groups.
template <class D>
HWY_INLINE void encode_grouped_row_simd(D d, const GroupedRow& format, const float* values, std::byte* row) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  auto* codes = reinterpret_cast<std::uint8_t*>(row);
  std::uint8_t* scales = codes + format.code_bytes();
  const auto width = static_cast<std::size_t>(format.width), group = static_cast<std::size_t>(format.group());
  for (std::size_t begin = 0; begin < width; begin += group, ++scales) {
    if (format.codes == GroupedCodes::kFp4) {
      *scales = quantise_entry_group(d, values + begin, codes + begin / 2);
      continue;
    }
    *scales = fp8_scale_code(absolute_maximum_simd(d, values + begin, group));
    const auto inverse = hn::Set(d, 1.0F / e8m0_to_float(*scales));
    for (std::size_t i = begin; i < begin + group; i += kLanes)
      store_e4m3(d, hn::Mul(hn::LoadU(d, values + i), inverse), codes + i);
  }
}

/// encode_latent_row; the rotated part is a multiple of the vector length.
template <class D>
HWY_INLINE void encode_latent_row_simd(D d, const LatentFormat& format, std::byte* page, int rows_per_page,
                                       int row, const float* values) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const auto width = static_cast<std::size_t>(format.width());
  std::byte* data = page + row * format.data_bytes();
  if (format.precision == Precision::kExact) {
    std::memcpy(data, values, width * sizeof(float));
    return;
  }
  if (format.precision == Precision::kBf16) {
    for (std::size_t i = 0; i < width; i += kLanes)
      store_bf16_simd(d, hn::LoadU(d, values + i), data + 2 * i);
    return;
  }
  if (format.has_groups()) return encode_grouped_row_simd(d, *format.grouped, values, data);
  auto* codes = reinterpret_cast<std::uint8_t*>(data);
  auto* scales = reinterpret_cast<std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                 row * format.scale_bytes());
  for (int block = 0; block < format.num_scales(); ++block) {
    const std::size_t begin = static_cast<std::size_t>(block) * kLatentGroup;
    scales[block] = fp8_scale_code(absolute_maximum_simd(d, values + begin, kLatentGroup));
    const auto inverse = hn::Set(d, 1.0F / e8m0_to_float(scales[block]));
    for (std::size_t i = begin; i < begin + kLatentGroup; i += kLanes) {
      store_e4m3(d, hn::Mul(hn::LoadU(d, values + i), inverse), codes + i);
    }
  }
  const auto nope = static_cast<std::size_t>(format.nope);
  for (std::size_t i = nope; i < width; i += kLanes) {
    store_bf16_simd(d, hn::LoadU(d, values + i), data + nope + 2 * (i - nope));
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_LATENT_ROW_INL_H_
