// Attention for any geometry, in plain loops: a block of threads per query and head, runs of 64 entries.
//
//     scores    a warp takes every fourth entry; its lanes share the dims
//     weights   by one warp
//     sums      each thread owns every 128th dim and adds the entries in order
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "numeric/block_scale.h"
#include "ops/sparse_attention/cuda/attention_output.cuh"
#include "ops/sparse_attention/cuda/entry_list.cuh"
#include "ops/sparse_attention/cuda/grouped_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kMaxWidth = 1024;
constexpr int kDimsPerThread = kMaxWidth / kThreads;

__device__ float dequantised(Bf16Bits bits) { return bf16_low(bits); }

__device__ float dequantised(std::byte code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), __NV_E4M3)));
}

/// Value `dim` of a row of numeric/latent_row.h, by form. `entry`: not of the window.
struct V4Row {
  __device__ static int data_bytes(const AttentionLaunch& launch, bool /*entry*/) {
    return launch.nope + 2 * launch.rope;
  }
  __device__ static int scale_bytes(const AttentionLaunch& launch) {
    return (launch.nope / kLatentGroup + 7) / 8 * 8;
  }
  __device__ static int value_width(const AttentionLaunch& launch) { return launch.nope + launch.rope; }

  __device__ static float value(const AttentionLaunch& launch, const RowPlace& place, bool /*entry*/,
                                int dim) {
    const int nope = launch.nope;
    if (dim >= nope) return dequantised(reinterpret_cast<const Bf16Bits*>(place.data + nope)[dim - nope]);
    return dequantised(place.data[dim]) *
           e8m0_value(static_cast<std::uint32_t>(place.scales[dim / kLatentGroup]));
  }
};

struct V32Row {
  __device__ static int data_bytes(const AttentionLaunch& launch, bool /*entry*/) {
    return launch.nope + launch.nope / kV32Group * static_cast<int>(sizeof(float)) + 2 * launch.rope;
  }
  __device__ static int scale_bytes(const AttentionLaunch& /*launch*/) { return 0; }
  __device__ static int value_width(const AttentionLaunch& launch) { return launch.nope; }

  __device__ static float value(const AttentionLaunch& launch, const RowPlace& place, bool /*entry*/,
                                int dim) {
    const int nope = launch.nope;
    const auto* scales = reinterpret_cast<const float*>(place.data + nope);
    if (dim >= nope)
      return dequantised(reinterpret_cast<const Bf16Bits*>(scales + nope / kV32Group)[dim - nope]);
    return rounded_to_bf16(dequantised(place.data[dim]) * scales[dim / kV32Group]);
  }
};

struct V41Row {
  __device__ static int width(const AttentionLaunch& launch) { return launch.nope + launch.rope; }
  __device__ static int data_bytes(const AttentionLaunch& launch, bool entry) {
    return entry ? entry_row_bytes(width(launch)) : position_row_bytes(width(launch));
  }
  __device__ static int scale_bytes(const AttentionLaunch& /*launch*/) { return 0; }
  __device__ static int value_width(const AttentionLaunch& launch) { return width(launch); }

  __device__ static float value(const AttentionLaunch& launch, const RowPlace& place, bool entry, int dim) {
    if (!entry) {
      const std::byte* scales = place.data + width(launch);
      return dequantised(place.data[dim]) *
             e8m0_value(static_cast<std::uint32_t>(scales[dim / kPositionGroup]));
    }
    const std::byte* scales = place.data + width(launch) / 2;
    const auto codes = static_cast<std::uint32_t>(place.data[dim / 2]) >> (dim % 2 * 4);
    // Magnitudes in e4m3: 0 to 1.5, and 2 to 6.
    const std::uint32_t magnitudes = (codes & 4u) == 0 ? 0x3C383000u : 0x4C484440u;
    const auto magnitude = static_cast<std::byte>(magnitudes >> (8 * (codes % 4)) & 0xFFu);
    const float value = dequantised(magnitude) * dequantised(scales[dim / kEntryGroup]);
    return (codes & 8u) != 0 ? -value : value;
  }
};

template <class Row>
__global__ void __launch_bounds__(kThreads)
    attention_any_kernel(AttentionLaunch launch, NextBehindWait order) {
  __shared__ float weights[kRunEntries];  // scores before
  __shared__ RowPlace places[kRunEntries];
  __shared__ float factor;
  __shared__ float out[kMaxWidth];
  order.wait().launch_next();
  const int query = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpLanes, lane = thread % kWarpLanes;
  const int width = launch.nope + launch.rope;
  const int value_width = Row::value_width(launch);
  const Bf16Bits* q = launch.q + query * launch.q_row_stride + head * launch.q_head_stride;
  const EntryList list = EntryList::of(launch, query);

  float sums[kDimsPerThread] = {};
  float maximum = -INFINITY, denominator = 0;  // warp 0's
  for (int begin = 0; begin < list.size; begin += kRunEntries) {
    const int count = min(kRunEntries, list.size - begin), num_window = list.num_window - begin;
    if (thread < count) {
      const int index = begin + thread, row = list.row(index);
      const bool entry = index >= list.num_window;
      places[thread] = RowPlace(entry ? launch.compressed : launch.window, list.page(launch, index, row), row,
                                Row::data_bytes(launch, entry), Row::scale_bytes(launch));
    }
    __syncthreads();
    for (int entry = warp; entry < count; entry += kWarps) {
      const RowPlace place = places[entry];
      float dot = 0;
      for (int dim = lane; dim < width; dim += kWarpLanes) {
        dot = fmaf(dequantised(q[dim]), Row::value(launch, place, entry >= num_window, dim), dot);
      }
      dot = warp_sum(dot);
      if (lane == 0) weights[entry] = dot * launch.scale_log2;
    }
    __syncthreads();
    if (warp == 0) {
      const int second_entry = lane + kWarpLanes;
      const float first_score = lane < count ? weights[lane] : -INFINITY;
      const float second_score = second_entry < count ? weights[second_entry] : -INFINITY;
      const float new_maximum = fmaxf(maximum, warp_max(fmaxf(first_score, second_score)));
      const float correction = new_maximum == maximum ? 1.0F : exp2f(maximum - new_maximum);
      const float first = exp2f(first_score - new_maximum), second = exp2f(second_score - new_maximum);
      denominator = denominator * correction + warp_sum(first + second);
      maximum = new_maximum;
      weights[lane] = rounded_to_bf16(first);
      weights[second_entry] = rounded_to_bf16(second);
      if (lane == 0) factor = correction;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDimsPerThread; ++i) {
      const int dim = thread + i * kThreads;
      if (dim >= value_width) break;
      sums[i] *= factor;
      for (int entry = 0; entry < count; ++entry) {
        sums[i] = fmaf(weights[entry], Row::value(launch, places[entry], entry >= num_window, dim), sums[i]);
      }
    }
    __syncthreads();
  }

  if (thread == 0)
    factor = list.size == 0 ? 0.0F : inverse_denominator(denominator, maximum, launch.sink[head]);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kDimsPerThread; ++i) {
    const int dim = thread + i * kThreads;
    if (dim < value_width) out[dim] = sums[i] * factor;
  }
  __syncthreads();
  Bf16Bits* to = launch.out + query * launch.out_row_stride + head * launch.out_head_stride;
  for (int dim = 2 * thread; dim < value_width; dim += 2 * kThreads) {
    std::uint32_t pair = pack_bf16(out[dim], out[dim + 1]);
    if (launch.cosine != nullptr && dim >= launch.nope) {
      const std::int64_t angle = query * launch.angle_stride + (dim - launch.nope) / 2;
      pair = rotated_back(pair, launch.cosine[angle], launch.sine[angle]);
    }
    to[dim] = static_cast<Bf16Bits>(pair);
    to[dim + 1] = static_cast<Bf16Bits>(pair >> 16);
  }
}

}  // namespace

void attention_any(const AttentionLaunch& launch, CudaContext& context) {
  BALEEN_CHECK(launch.nope + launch.rope <= kMaxWidth);
  const dim3 grid(static_cast<unsigned>(launch.num_rows), static_cast<unsigned>(launch.num_heads));
  const auto kernel = launch.form == RowForm::kV32   ? attention_any_kernel<V32Row>
                      : launch.form == RowForm::kV41 ? attention_any_kernel<V41Row>
                                                     : attention_any_kernel<V4Row>;
  launch_kernel("attention_any", kernel, {.grid = grid, .threads = kThreads}, context.stream, launch);
}

}  // namespace baleen::BALEEN_ARCH
