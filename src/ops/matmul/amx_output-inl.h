// What few and many rows by AMX have in common: prefetching weights, and storing outputs. Included once per
// instruction set (Highway).

#if defined(BALEEN_OPS_MATMUL_AMX_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_AMX_OUTPUT_INL_H_
#undef BALEEN_OPS_MATMUL_AMX_OUTPUT_INL_H_
#else
#define BALEEN_OPS_MATMUL_AMX_OUTPUT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "numeric/rounding-inl.h"
#include "ops/matmul/amx_weights-inl.h"
#include "ops/matmul/matmul.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// Brings a line to the second-level cache. Brought to the first, it would be gone before its time, and
/// panels with it.
HWY_INLINE void prefetch_second_level(const void* at) { __builtin_prefetch(at, 0, 2); }

/// Stores outputs n to n + 15 of row m, as far as they are in the tile: sums[0], sums[stride], ...,
/// times the matrix's factor.
HWY_INLINE void store_outputs(const MatmulTile& tile, std::int64_t m, std::int64_t n, const float* sums,
                              std::int64_t stride) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  auto outputs = stride == 1
                     ? hn::Load(d, sums)
                     : hn::GatherIndex(
                           d, sums, hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<std::int32_t>(stride))));
  outputs = hn::Mul(outputs, hn::Set(d, tile.weight->output_factor()));
  if (tile.round_bf16) outputs = round_bf16_simd(d, outputs);
  float* y = tile.y + m * tile.y_stride + n;
  const std::int64_t count = std::min(kTileRows, tile.n_end - n);
  if (count == kTileRows) {
    hn::StoreU(outputs, d, y);
  } else {
    hn::BlendedStore(outputs, hn::FirstN(d, static_cast<std::size_t>(count)), d, y);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_AMX_OUTPUT_INL_H_
