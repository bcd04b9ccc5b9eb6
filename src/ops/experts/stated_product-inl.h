// Products and the activation of stated sums (stated_sums.h) with vectors. Included once per instruction set
// (Highway).
//
// A vector of weights is 128 bits or a multiple; 128 bits are the 32 weights of a group, bytes of two inputs
// each, which a look-up turns into bytes of W + 16. Their products with the digits of X are added in 32 bits:
// exact, so in any order. Four weight rows are multiplied together, since adding up the lanes of four vectors
// then is a transposition that leaves no lane empty: of 128 bits of the result lane l belongs to row l, and
// the 128 bits to one group.

#if defined(BALEEN_OPS_EXPERTS_STATED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_EXPERTS_STATED_PRODUCT_INL_H_
#undef BALEEN_OPS_EXPERTS_STATED_PRODUCT_INL_H_
#else
#define BALEEN_OPS_EXPERTS_STATED_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "numeric/rounding-inl.h"
#include "ops/experts/stated_slice.h"
#include "ops/experts/stated_sums.h"
#include "ops/matmul/group_sums-inl.h"
#include "ops/matmul/int8_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// a b + c, rounded once, also where the instruction set does not have that.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fused(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  static_cast<void>(d);
  return hn::MulAdd(a, b, c);
#else
  constexpr std::size_t kCount = hn::MaxLanes(D());
  alignas(64) float as[kCount], bs[kCount], cs[kCount];
  hn::Store(a, d, as);
  hn::Store(b, d, bs);
  hn::Store(c, d, cs);
  for (std::size_t i = 0; i < kCount; ++i) cs[i] = std::fma(as[i], bs[i], cs[i]);
  return hn::Load(d, cs);
#endif
}

// The activations.

/// Writes a slice; X are [128]. `scales`: of each group.
HWY_INLINE void fill_slice(const std::int32_t* values, const float (&scales)[StatedSlice::kNumGroups],
                           StatedSlice& slice) {
  const Int32Tag d;
  const hn::Rebind<std::int8_t, Int32Tag> narrow;
  constexpr int kUnused = 32 - StatedSlice::kDigitBits;
  for (std::int64_t group = 0; group < StatedSlice::kNumGroups; ++group) {
    auto sum = hn::Zero(d);
    for (std::int64_t i = group * kGroup; i < (group + 1) * kGroup; i += 2 * kLanes) {
      Int32Vec halves[2];
      hn::LoadInterleaved2(d, values + i, halves[0], halves[1]);
      for (int half = 0; half < 2; ++half) {
        sum = hn::Add(sum, halves[half]);
        const auto d0 = hn::ShiftRight<kUnused>(hn::ShiftLeft<kUnused>(halves[half]));
        const auto rest = hn::ShiftRight<StatedSlice::kDigitBits>(hn::Sub(halves[half], d0));
        const auto d1 = hn::ShiftRight<kUnused>(hn::ShiftLeft<kUnused>(rest));
        const auto d2 = hn::ShiftRight<StatedSlice::kDigitBits>(hn::Sub(rest, d1));
        hn::StoreU(hn::DemoteTo(narrow, d0), narrow, slice.digits[0][half] + i / 2);
        hn::StoreU(hn::DemoteTo(narrow, d1), narrow, slice.digits[1][half] + i / 2);
        hn::StoreU(hn::DemoteTo(narrow, d2), narrow, slice.digits[2][half] + i / 2);
      }
    }
    const std::int32_t excess =
        UnsignedWeights<WeightFormat::kFp4>::kOffset * hn::GetLane(hn::SumOfLanes(d, sum));
    std::fill_n(slice.excess[group], 4, excess);
    std::fill_n(slice.scales[group], 4, scales[group] * 0x1p-10F);
  }
}

/// Inputs of a slice that share a scale.
template <int kScaled>
constexpr bool kIsScaled = kScaled == kActivationGroup || kScaled == static_cast<int>(kGroup);

/// `scale` of the kScaled inputs from `begin` on, to the groups that they are.
template <int kScaled>
HWY_INLINE void set_scales(std::int64_t begin, float scale, float (&scales)[StatedSlice::kNumGroups]) {
  std::fill_n(scales + begin / kGroup, kScaled / kGroup, scale);
}

/// A slice of e4m3 codes with a scale S for kScaled inputs each: that of place i among them is scale_of(i).
template <int kScaled, class ScaleOf>
HWY_INLINE void pack_codes(const std::uint8_t* codes, const ScaleOf& scale_of, StatedSlice& slice) {
  static_assert(kIsScaled<kScaled>);
  const Int32Tag d;
  const hn::Rebind<std::uint8_t, Int32Tag> narrow;
  alignas(64) std::int32_t values[kActivationGroup];
  float scales[StatedSlice::kNumGroups];
  for (std::int64_t begin = 0; begin < kActivationGroup; begin += kScaled) {
    auto nan = hn::Zero(d);  // bits set in a lane that has met NaN
    for (std::int64_t i = begin; i < begin + kScaled; i += kLanes) {
      const auto code = hn::PromoteTo(d, hn::LoadU(narrow, codes + i));
      const auto magnitude = hn::And(code, hn::Set(d, 0x7F));
      const auto is_nan = hn::VecFromMask(d, hn::Eq(magnitude, hn::Set(d, 0x7F)));
      nan = hn::Or(nan, is_nan);
      // The code's fields are those of a float32 whose exponent is 127 - 7 too small; X has 2^9 beyond that.
      const auto as_float = hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(d, (127 - 7 + 9) << 23));
      const auto normal = hn::ConvertTo(d, hn::BitCast(FloatTag(), as_float));
      const auto of_number = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 8)), magnitude, normal);
      const auto x = hn::AndNot(is_nan, of_number);
      hn::Store(hn::IfThenElse(hn::Gt(code, hn::Set(d, 0x7F)), hn::Neg(x), x), d, values + i);
    }
    const bool has_nan = !hn::AllTrue(d, hn::Eq(nan, hn::Zero(d)));
    set_scales<kScaled>(begin, has_nan ? std::numeric_limits<float>::quiet_NaN() : scale_of(begin / kScaled),
                        scales);
  }
  fill_slice(values, scales, slice);
}

/// The same of values, which are rounded by the rule of `quantise_fp8_block`.
template <int kScaled>
HWY_INLINE void pack_values(const float* x, StatedSlice& slice) {
  static_assert(kIsScaled<kScaled>);
  const FloatTag d;
  const Int32Tag di;
  alignas(64) std::int32_t values[kActivationGroup];
  float scales[StatedSlice::kNumGroups];
  for (std::int64_t begin = 0; begin < kActivationGroup; begin += kScaled) {
    const float scale = e8m0_to_float(fp8_scale_code(absolute_maximum_simd(d, x + begin, kScaled)));
    const auto inverse = hn::Set(d, 1.0F / scale);
    auto nan = hn::Zero(d);
    for (std::int64_t i = begin; i < begin + kScaled; i += kLanes) {
      const auto rounded = round_e4m3(d, hn::Mul(hn::LoadU(d, x + i), inverse));
      const auto is_nan = hn::VecFromMask(d, hn::IsNaN(rounded));
      nan = hn::Or(nan, is_nan);
      const auto scaled = hn::AndNot(is_nan, hn::Mul(rounded, hn::Set(d, 512.0F)));
      hn::Store(hn::ConvertTo(di, scaled), di, values + i);
    }
    const bool has_nan = !hn::AllTrue(di, hn::Eq(hn::BitCast(di, nan), hn::Zero(di)));
    set_scales<kScaled>(begin, has_nan ? std::numeric_limits<float>::quiet_NaN() : scale, scales);
  }
  fill_slice(values, scales, slice);
}

/// `stated_swiglu_ref` of vectors.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V stated_swiglu(D d, V gate, V up, float limit, float weight) {
  const hn::RebindToSigned<D> di;
  const auto bound = hn::Set(d, limit > 0 ? limit : std::numeric_limits<float>::infinity());
  // Comparisons rather than Min and Max, for NaN.
  const auto g = hn::IfThenElse(hn::Gt(gate, bound), bound, gate);
  const auto below = hn::IfThenElse(hn::Gt(up, bound), bound, up);
  const auto v = hn::IfThenElse(hn::Lt(below, hn::Neg(bound)), hn::Neg(bound), below);
  const auto most = hn::Set(d, StatedExp::kMax), least = hn::Set(d, StatedExp::kMin);
  const auto x = hn::Neg(g);
  const auto at_most = hn::IfThenElse(hn::Lt(x, most), x, most);
  const auto bounded = hn::IfThenElse(hn::Gt(x, least), at_most, least);
  const auto rounder = hn::Set(d, StatedExp::kRounder);
  const auto n = hn::Sub(fused(d, bounded, hn::Set(d, StatedExp::kLog2E), rounder), rounder);
  const auto upper = fused(d, hn::Neg(n), hn::Set(d, StatedExp::kLn2Upper), bounded);
  const auto r = fused(d, hn::Neg(n), hn::Set(d, StatedExp::kLn2Lower), upper);
  auto p = hn::Set(d, StatedExp::kPolynomial[0]);
  for (std::size_t i = 1; i < std::size(StatedExp::kPolynomial); ++i)
    p = fused(d, p, r, hn::Set(d, StatedExp::kPolynomial[i]));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const auto exp = hn::Mul(p, hn::BitCast(d, exponent));
  const auto quotient = hn::Div(g, hn::Add(hn::Set(d, 1.0F), exp));
  return hn::Mul(hn::Set(d, weight), hn::Mul(quotient, v));
}

// The products.

constexpr int kQuad = 4;  ///< weight rows that are multiplied together
constexpr std::int64_t kVectorBytes = 4 * kLanes;
constexpr std::int64_t kSliceBytes = kActivationGroup / 2;
constexpr int kParts = kSliceBytes / kVectorBytes;  ///< vectors of a weight row's slice

/// Where the codes and scales of four weight rows are, one behind the other.
struct QuadCursor {
  HWY_INLINE QuadCursor(const WeightMatrix& weight, std::int64_t row)
      : codes(reinterpret_cast<const std::uint8_t*>(weight.data) + row * (weight.cols / 2)),
        scales(weight.group_scales + row * (weight.cols / kGroup)),
        num_inputs(weight.cols) {}

  [[nodiscard]] HWY_INLINE const std::uint8_t* slice(int row, std::int64_t slice) const {
    return codes + row * (num_inputs / 2) + slice * kSliceBytes;
  }

  const std::uint8_t* codes;
  const std::uint8_t* scales;
  std::int64_t num_inputs;
};

/// Sums over groups, in four lanes each, of (W + 16) X.
template <bool kByteDots>
HWY_INLINE Int32Vec products_of(const UnsignedWeights<WeightFormat::kFp4>& weights, const StatedSlice& x,
                                int part) {
  const ByteTag d8;
  const auto digits = [&](int digit, int half) HWY_ATTR {
    return hn::Load(d8, reinterpret_cast<const std::uint8_t*>(x.digits[digit][half]) + part * kVectorBytes);
  };
  if constexpr (kByteDots) {
    auto sum = hn::Zero(Int32Tag());
    for (int digit = StatedSlice::kNumDigits - 1; digit >= 0; --digit) {
      sum = hn::ShiftLeft<StatedSlice::kDigitBits>(sum);
      sum = add_byte_dots(sum, weights.half[0], digits(digit, 0));
      sum = add_byte_dots(sum, weights.half[1], digits(digit, 1));
    }
    return sum;
  } else {
    // Pairs of even and of odd inputs: at most 4 * 28 * 64, which fits 16 bits.
    const auto pairs = [&](int digit) HWY_ATTR {
      return hn::Add(multiply_bytes(weights.half[0], digits(digit, 0)),
                     multiply_bytes(weights.half[1], digits(digit, 1)));
    };
    const Int16Tag d16;
    const auto sum0 = multiply_pairs(pairs(0), hn::Set(d16, std::int16_t{1}));
    const auto sum1 = multiply_pairs(pairs(1), hn::Set(d16, std::int16_t{1 << 7}));
    const auto sum2 = multiply_pairs(pairs(2), hn::Set(d16, std::int16_t{1 << 14}));
    return hn::Add(hn::Add(sum0, sum1), sum2);
  }
}

/// The scale codes of a slice: word l of each 128 bits has those of row l.
HWY_INLINE ByteVec scale_codes_of(const QuadCursor& quad, std::int64_t slice) {
  std::uint32_t words[kQuad];
  static_assert(sizeof(words[0]) == StatedSlice::kNumGroups);
  for (int i = 0; i < kQuad; ++i) {
    const std::int64_t at = i * (quad.num_inputs / kGroup) + slice * StatedSlice::kNumGroups;
    std::memcpy(&words[i], quad.scales + at, sizeof(words[i]));
  }
#if HWY_ARCH_X86  // in registers: a load of four fresh stores waits for them
  const __m128i block = _mm_set_epi32(static_cast<int>(words[3]), static_cast<int>(words[2]),
                                      static_cast<int>(words[1]), static_cast<int>(words[0]));
#if HWY_TARGET == HWY_AVX3
  return ByteVec{_mm512_broadcast_i32x4(block)};
#elif HWY_TARGET == HWY_AVX2
  return ByteVec{_mm256_broadcastsi128_si256(block)};
#else
  return ByteVec{block};
#endif
#else
  return hn::BitCast(ByteTag(), hn::LoadDup128(WordTag(), words));
#endif
}

/// Which bytes of `scale_codes_of` are the codes of a part's lanes, in the upper byte of each; 0x80 for zero.
struct ScaleOfLane {
  constexpr ScaleOfLane() {
    for (std::uint32_t lane = 0; lane < std::size(pattern); ++lane)
      pattern[lane] = (lane % kQuad * StatedSlice::kNumGroups + lane / kQuad) << 24 | 0x00808080u;
  }
  alignas(64) std::uint32_t pattern[StatedSlice::kNumGroups * kQuad] = {};
};

/// `e8m0_to_float` of the codes of a part.
HWY_INLINE FloatVec scales_of_part(ByteVec codes, int part) {
  static constexpr ScaleOfLane kScaleOfLane;
  const WordTag du;
  const auto pattern = hn::BitCast(ByteTag(), hn::Load(du, kScaleOfLane.pattern + part * kLanes));
  const auto exponent = hn::ShiftRight<1>(hn::BitCast(du, hn::TableLookupBytesOr0(codes, pattern)));
  const auto number = hn::Max(exponent, hn::Set(du, 0x00400000u));  // of code 0: 2^-127
  const auto is_nan = hn::Eq(number, hn::Set(du, 0x7F800000u));
  return hn::BitCast(FloatTag(), hn::IfThenElse(is_nan, hn::Set(du, 0x7FC00000u), number));
}

using QuadTag = hn::CappedTag<float, kQuad>;
using QuadVec = hn::Vec<QuadTag>;

/// (p_0 + p_2) + (p_1 + p_3), where 128 bits are the p of a group.
HWY_INLINE QuadVec sum_of_slice(const FloatVec (&p)[kParts]) {
#if HWY_TARGET == HWY_AVX3
  const hn::Half<FloatTag> half;
  const auto sums = hn::Add(hn::LowerHalf(half, p[0]), hn::UpperHalf(half, p[0]));
#elif HWY_TARGET == HWY_AVX2
  const FloatTag half;
  const auto sums = hn::Add(p[0], p[1]);
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  static_cast<void>(half);
  return hn::Add(hn::LowerHalf(QuadTag(), sums), hn::UpperHalf(QuadTag(), sums));
#else
  return hn::Add(hn::Add(p[0], p[2]), hn::Add(p[1], p[3]));
#endif
}

/// Outputs of four weight rows for kRows rows of activations, which have a scale for kScaled inputs each.
/// Meanwhile codes and scales of the four rows `next`, as long as these, are fetched to the cache, if
/// `fetches`.
template <bool kByteDots, int kScaled, int kRows>
HWY_INLINE void multiply_quad(const QuadCursor& quad, const QuadCursor& next,
                              const StatedSlice* const (&x)[kRows], bool fetches, QuadVec (&sums)[kRows]) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t num_slices = quad.num_inputs / kActivationGroup;
  for (int m = 0; m < kRows; ++m) sums[m] = hn::Zero(QuadTag());
  for (std::int64_t slice = 0; slice < num_slices; ++slice) {
    if (fetches) {
      for (int i = 0; i < kQuad; ++i) hwy::Prefetch(next.slice(i, slice));
      if (slice * kLine < kQuad * quad.num_inputs / kGroup) hwy::Prefetch(next.scales + slice * kLine);
    }
    const ByteVec scale_codes = scale_codes_of(quad, slice);
    FloatVec p[kRows][kParts];
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      Int32Vec products[kRows][kQuad];
#pragma GCC unroll 4
      for (int i = 0; i < kQuad; ++i) {
        const UnsignedWeights<WeightFormat::kFp4> weights(
            hn::LoadU(ByteTag(), quad.slice(i, slice) + part * kVectorBytes));
#pragma GCC unroll 4
        for (int m = 0; m < kRows; ++m) products[m][i] = products_of<kByteDots>(weights, x[m][slice], part);
      }
      const FloatVec scales = scales_of_part(scale_codes, part);
#pragma GCC unroll 4
      for (int m = 0; m < kRows; ++m) {
        const auto excess = hn::Load(Int32Tag(), x[m][slice].excess[0] + part * kLanes);
        const auto exact = hn::Sub(sums_of_groups(products[m]), excess);
        p[m][part] = hn::Mul(hn::ConvertTo(FloatTag(), exact), scales);
        if constexpr (kScaled < kActivationGroup) {
          const auto of_groups = hn::Load(FloatTag(), x[m][slice].scales[0] + part * kLanes);
          p[m][part] = hn::Mul(p[m][part], of_groups);
        }
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) {
      if constexpr (kScaled < kActivationGroup) {
        sums[m] = hn::Add(sum_of_slice(p[m]), sums[m]);
      } else {
        sums[m] = fused(QuadTag(), sum_of_slice(p[m]), hn::Load(QuadTag(), x[m][slice].scales[0]), sums[m]);
      }
    }
  }
}

/// Rows of activations that share a pass over weights: their sums fit the registers.
constexpr int kTileRows = 4;

template <bool kByteDots, int kScaled, int kRows>
HWY_INLINE void multiply_tile(const QuadCursor& quad, const QuadCursor& next, std::int64_t num_rows,
                              const StatedSlice* const* x, bool fetches, bool rounds, float* to,
                              std::int64_t stride) {
  if (num_rows < kRows) {
    if constexpr (kRows > 1)
      multiply_tile<kByteDots, kScaled, kRows - 1>(quad, next, num_rows, x, fetches, rounds, to, stride);
    return;
  }
  const StatedSlice* of_tile[kRows];
  std::copy_n(x, kRows, of_tile);
  QuadVec sums[kRows];
  multiply_quad<kByteDots, kScaled, kRows>(quad, next, of_tile, fetches, sums);
  for (int m = 0; m < kRows; ++m)
    hn::StoreU(rounds ? round_bf16_simd(QuadTag(), sums[m]) : sums[m], QuadTag(), to + m * stride);
}

/// Outputs [begin, end), multiples of four, of rows of activations: to[m * stride + n - begin].
template <bool kByteDots, int kScaled>
HWY_INLINE void multiply_rows(const WeightMatrix& weight, std::int64_t begin, std::int64_t end,
                              const FollowingRows& following, const StatedSlice* const* x,
                              std::int64_t num_rows, bool rounds, float* to, std::int64_t stride) {
  for (std::int64_t n = begin; n < end; n += kQuad) {
    const QuadCursor quad(weight, n);
    const bool is_last = n + kQuad >= end, fetches = !is_last || following.weight != nullptr;
    const QuadCursor next = !fetches  ? quad
                            : is_last ? QuadCursor(*following.weight, following.begin)
                                      : QuadCursor(weight, n + kQuad);
    for (std::int64_t row = 0; row < num_rows; row += kTileRows) {
      multiply_tile<kByteDots, kScaled, kTileRows>(
          quad, next, std::min<std::int64_t>(kTileRows, num_rows - row), x + row, fetches && row == 0, rounds,
          to + row * stride + n - begin, stride);
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_EXPERTS_STATED_PRODUCT_INL_H_
