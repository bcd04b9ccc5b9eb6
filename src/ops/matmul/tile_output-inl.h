// From accumulators, a vector for each output, to outputs. Included once per instruction set (Highway).

#if defined(BALEEN_OPS_MATMUL_TILE_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_TILE_OUTPUT_INL_H_
#undef BALEEN_OPS_MATMUL_TILE_OUTPUT_INL_H_
#else
#define BALEEN_OPS_MATMUL_TILE_OUTPUT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "numeric/rounding-inl.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// Upper half onto lower half until four lanes are left.
template <class D>
HWY_INLINE auto fold_to_four(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return fold_to_four(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

/// Sums of the lanes of four vectors, side by side. One sum costs a quarter of a horizontal sum of its own,
/// which for rows of 256 inputs is nearly as much work as their products (prefill of the bundled model: 8 to
/// 16% quicker). Every output is summed in this one order, whatever the tile.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sums_of_four(FloatVec a, FloatVec b, FloatVec c, FloatVec e) {
  const FloatTag d;
  const hn::RebindToUnsigned<hn::Repartition<double, FloatTag>> pairs;
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab_pairs = hn::BitCast(pairs, ab), ce_pairs = hn::BitCast(pairs, ce);
  const auto in_blocks = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab_pairs, ce_pairs)),
                                 hn::BitCast(d, hn::InterleaveUpper(pairs, ab_pairs, ce_pairs)));
  return fold_to_four(d, in_blocks);
}

/// The first `count` of the outputs n to n + 3 of row m, as far as they are in the tile: the sums of a, b, c,
/// e, times the matrix's factor, rounded if the tile asks for it.
HWY_INLINE void store_columns(const MatmulTile& tile, std::int64_t m, std::int64_t n, std::int64_t count,
                              FloatVec a, FloatVec b, FloatVec c, FloatVec e) {
  const hn::CappedTag<float, 4> four;
  auto sum = hn::Mul(sums_of_four(a, b, c, e), hn::Set(four, tile.weight->output_factor()));
  if (tile.round_bf16) sum = round_bf16_simd(four, sum);
  float* y = tile.y + m * tile.y_stride + n;
  const std::int64_t num_columns = std::min(count, tile.n_end - n);
  if (num_columns >= 4) {
    hn::StoreU(sum, four, y);
    return;
  }
  float last[4];
  hn::StoreU(sum, four, last);
  for (std::int64_t i = 0; i < num_columns; ++i) y[i] = last[i];  // none if the tile ends before n
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_TILE_OUTPUT_INL_H_
