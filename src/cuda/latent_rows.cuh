/// Latent cache rows (numeric/latent_row.h, `released` precision) as kernels write them.
#pragma once

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
  std::byte* base = nullptr;
  std::int64_t page_stride_bytes = 0;
  std::int32_t rows_per_page = 0;
  std::int32_t data_bytes = 0;
  std::int32_t scale_bytes = 0;
  std::int32_t nope = 0;

  DeviceLatentPool() = default;
  explicit DeviceLatentPool(const LatentPool& pool)
      : base(pool.base),
        page_stride_bytes(pool.page_stride_bytes),
        rows_per_page(pool.rows_per_page),
        data_bytes(static_cast<std::int32_t>(pool.format.data_bytes())),
        scale_bytes(static_cast<std::int32_t>(pool.format.scale_bytes())),
        nope(pool.format.nope) {
    BALEEN_CHECK(pool.format.precision == Precision::kReleased && pool.format.layout == LatentLayout::kV4);
    BALEEN_CHECK(!pool.format.has_groups());
    BALEEN_CHECK_EQ(pool.format.nope % kLatentGroup, 0);
  }

  __device__ std::byte* data(PageId page, int row) const {
    return base + static_cast<std::int64_t>(page) * page_stride_bytes + row * data_bytes;
  }
  __device__ std::uint8_t* scales(PageId page, int row) const {
    return reinterpret_cast<std::uint8_t*>(base + static_cast<std::int64_t>(page) * page_stride_bytes +
                                           rows_per_page * data_bytes + row * scale_bytes);
  }
};

/// Writes a lane's values, which are elements column, column + 1, ... of row `row` of `page`, already BF16
/// values: e4m3 codes with a scale per 64 below `nope`, BF16 from there on. The 64 of a scale lie in
/// neighbouring lanes, kValues in each; all lanes of the warp take part, those without `write` in the
/// shuffles alone.
template <int kValues>
__device__ void store_latent_values(const DeviceLatentPool& pool, PageId page, int row, int column,
                                    const float (&values)[kValues], bool write) {
  static_assert(kValues == 4 || kValues == 8);
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
  const float scale = fp8_scale(amax), inverse = inverse_scale(scale);
  std::uint32_t codes[kValues / 4];
#pragma unroll
  for (int i = 0; i < kValues; i += 4) {
    codes[i / 4] = to_e4m3x4(values[i] * inverse, values[i + 1] * inverse, values[i + 2] * inverse,
                             values[i + 3] * inverse);
  }
  std::byte* to = pool.data(page, row) + column;
  if constexpr (kValues == 8) {
    *reinterpret_cast<uint2*>(to) = {codes[0], codes[1]};
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = codes[0];
  }
  if (column % kLatentGroup == 0) pool.scales(page, row)[column / kLatentGroup] = e8m0_code(scale);
}

}  // namespace baleen
