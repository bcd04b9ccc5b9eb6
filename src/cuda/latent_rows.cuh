/// Latent cache rows (numeric/latent_row.h, `released` precision) as kernels write them.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "numeric/latent_row.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// A pool with its row's geometry worked out.
struct DeviceLatentPool {
  /// Rows with a scale for every so many values over all of their width (numeric/grouped_row.h); 0: V4's.
  enum class Groups : std::int32_t { kNone = 0, kFp8 = 32, kFp4 = 16 };

  std::byte* base = nullptr;
  std::int64_t page_stride_bytes = 0;
  std::int32_t rows_per_page = 0;
  std::int32_t data_bytes = 0;
  std::int32_t scale_bytes = 0;
  std::int32_t nope = 0;
  std::int32_t code_bytes = 0;  ///< codes that a row with groups has; its scales are behind them
  Groups groups = Groups::kNone;

  DeviceLatentPool() = default;
  explicit DeviceLatentPool(const LatentPool& pool)
      : base(pool.base),
        page_stride_bytes(pool.page_stride_bytes),
        rows_per_page(pool.rows_per_page),
        data_bytes(static_cast<std::int32_t>(pool.format.data_bytes())),
        scale_bytes(static_cast<std::int32_t>(pool.format.scale_bytes())),
        nope(pool.format.nope) {
    BALEEN_CHECK(pool.format.precision == Precision::kReleased && pool.format.layout == LatentLayout::kV4);
    if (pool.format.has_groups()) {
      const GroupedRow& row = *pool.format.grouped;
      groups = row.codes == GroupedCodes::kFp8 ? Groups::kFp8 : Groups::kFp4;
      code_bytes = static_cast<std::int32_t>(row.code_bytes());
      BALEEN_CHECK_EQ(row.width % row.group(), 0);
      BALEEN_CHECK_EQ(pool.page_stride_bytes % 8, 0);
    } else {
      BALEEN_CHECK_EQ(pool.format.nope % kLatentGroup, 0);
    }
  }

  __device__ std::byte* data(PageId page, int row) const {
    return base + static_cast<std::int64_t>(page) * page_stride_bytes + row * data_bytes;
  }
  __device__ std::uint8_t* scales(PageId page, int row) const {
    return reinterpret_cast<std::uint8_t*>(base + static_cast<std::int64_t>(page) * page_stride_bytes +
                                           rows_per_page * data_bytes + row * scale_bytes);
  }
};

/// kValues e4m3 codes, kValues bytes: one write, or byte by byte where `to` need not be a multiple of them.
template <int kValues>
__device__ void store_e4m3_codes(std::byte* to, const float (&values)[kValues], float inverse,
                                 bool at_once = true) {
  std::uint32_t codes[kValues / 4];
#pragma unroll
  for (int i = 0; i < kValues; i += 4) {
    codes[i / 4] = to_e4m3x4(values[i] * inverse, values[i + 1] * inverse, values[i + 2] * inverse,
                             values[i + 3] * inverse);
  }
  if (!at_once) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) to[i] = static_cast<std::byte>(codes[i / 4] >> (8 * (i % 4)));
  } else if constexpr (kValues == 8) {
    *reinterpret_cast<uint2*>(to) = {codes[0], codes[1]};
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = codes[0];
  }
}

/// Writes a lane's values, already BF16 values, to row `row` of `page`, of e2m1 codes (Groups::kFp4) with an
/// e4m3 scale of 16 values, max(amax, 6 * 2^-9) / 6. A NaN among them is the scale. The values of a scale lie
/// in neighbouring lanes, kValues in each; all lanes of the warp take part.
template <int kValues>
__device__ void store_entry_values(const DeviceLatentPool& pool, PageId page, int row, int column,
                                   const float (&values)[kValues]) {
  constexpr int kGroup = static_cast<int>(DeviceLatentPool::Groups::kFp4);
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFFu, kInfinity = 0x7F800000u;
  constexpr float kSmallest = 6.0F * 0x1p-9F;
  // As integers magnitudes keep their order, and NaN is above them all.
  std::uint32_t bits = __float_as_uint(kSmallest);
#pragma unroll
  for (int i = 0; i < kValues; ++i) bits = max(bits, __float_as_uint(values[i]) & kMagnitude);
#pragma unroll
  for (int step = kGroup / kValues / 2; step > 0; step /= 2)
    bits = max(bits, __shfl_xor_sync(kAllLanes, bits, step));

  const bool is_number = bits <= kInfinity;
  const __nv_fp8_storage_t code =
      __nv_cvt_float_to_fp8(__fdiv_rn(__uint_as_float(bits), 6.0F), __NV_SATFINITE, __NV_E4M3);
  const float scale = __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < kValues; ++i)
    codes |= (is_number ? to_e2m1(__fdiv_rn(values[i], scale)) : 0u) << (4 * i);
  std::byte* data = pool.data(page, row);
  std::byte* to = data + column / 2;
  if constexpr (kValues == 8) {
    *reinterpret_cast<std::uint32_t*>(to) = codes;
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(codes);
  }
  if (column % kGroup == 0) data[pool.code_bytes + column / kGroup] = static_cast<std::byte>(code);
}

/// Of a position's row: e4m3 codes with a power-of-two scale of 32 values. A row of 512 values has 528 bytes,
/// one of 128 has 132, one of 192 has 198.
template <int kValues>
__device__ void store_position_values(const DeviceLatentPool& pool, std::byte* data, int column,
                                      const float (&values)[kValues], bool write) {
  constexpr int kGroup = static_cast<int>(DeviceLatentPool::Groups::kFp8);
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kValues; ++i) amax = fmaxf(amax, fabsf(values[i]));
  const float scale = fp8_scale(warp_max<kGroup / kValues>(amax));
  if (!write) return;
  store_e4m3_codes(data + column, values, inverse_scale(scale), pool.data_bytes % kValues == 0);
  if (column % kGroup == 0)
    data[pool.code_bytes + column / kGroup] = static_cast<std::byte>(e8m0_code(scale));
}

/// Writes a lane's values, which are elements column, column + 1, ... of row `row` of `page`, already BF16
/// values: e4m3 codes with a scale per 64 below `nope`, BF16 from there on; or codes of all values where rows
/// have groups (Groups::kFp8). The values of a scale lie in neighbouring lanes, kValues in each; all lanes of
/// the warp take part, those without `write` in the shuffles alone.
template <int kValues>
__device__ void store_latent_values(const DeviceLatentPool& pool, PageId page, int row, int column,
                                    const float (&values)[kValues], bool write) {
  static_assert(kValues == 4 || kValues == 8);
  if (pool.groups == DeviceLatentPool::Groups::kFp8)
    return store_position_values(pool, pool.data(page, row), column, values, write);
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kValues; ++i) amax = fmaxf(amax, fabsf(values[i]));
  amax = warp_max<kLatentGroup / kValues>(amax);
  if (!write) return;

  if (column >= pool.nope) {
    std::byte* to = pool.data(page, row) + pool.nope + 2 * (column - pool.nope);
    if constexpr (kValues == 8) {
      *reinterpret_cast<uint4*>(to) = pack_bf16(values);
    } else {
      *reinterpret_cast<uint2*>(to) = pack_bf16(values);
    }
    return;
  }
  const float scale = fp8_scale(amax);
  store_e4m3_codes(pool.data(page, row) + column, values, inverse_scale(scale));
  if (column % kLatentGroup == 0) pool.scales(page, row)[column / kLatentGroup] = e8m0_code(scale);
}

}  // namespace baleen
