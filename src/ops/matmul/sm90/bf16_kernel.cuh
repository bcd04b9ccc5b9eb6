/// What the kernels of BF16 products share: operands and sums on the device, their ring of stages, launches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/pipeline_ring.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "cuda/scale_group.cuh"
#include "ops/matmul/sm90/bf16_products.h"

namespace baleen::sm90 {

/// Rows of 64 BF16 inputs or 128 FP8 inputs, swizzled as TMA does.
constexpr int kBoxRowBytes = 128;
constexpr int kBoxInputs = 64;  // BF16
constexpr int kBoxesPerSlice = kSliceInputs / kBoxInputs;
constexpr int kGroupRows = 8;  // the swizzle repeats
constexpr int kGroupBytes = kGroupRows * kBoxRowBytes;
constexpr int kMmaInputs = 16;  // of one tensor core instruction
constexpr int kMmaBytes = 2 * kMmaInputs;
constexpr int kMmasPerBox = kBoxInputs / kMmaInputs;
constexpr int kMmaOutputs = 64;  // weight rows of one instruction
constexpr int kWarpThreads = 32;
constexpr int kWarpgroupThreads = 128;
constexpr int kWarpsPerWarpgroup = kWarpgroupThreads / kWarpThreads;
constexpr int kWarpOutputs = kMmaOutputs / kWarpsPerWarpgroup;

/// The first place in dynamic shared memory where swizzled boxes may lie.
__device__ inline std::byte* align_to_group(std::byte* dynamic) {
  return dynamic + (-ptx::shared_address(dynamic) & (kGroupBytes - 1));
}

/// Which product a tile belongs to.
__device__ inline const Bf16Products::Product& product_of(const Bf16Products& work, int tile) {
  int which = work.num_products - 1;
  while (which > 0 && work.products[which].first_tile > tile) --which;
  return work.products[which];
}

__device__ inline void store_output(const Bf16Products::Product& product, int token, int output,
                                    float value) {
  const std::int64_t at = token * product.y_stride + output;
  if (product.y_is_bf16) {
    reinterpret_cast<Bf16Bits*>(product.y)[at] = bf16_bits(value);
  } else {
    reinterpret_cast<float*>(product.y)[at] = value;
  }
}

/// d (+)= weights x^T over 64 inputs. Both boxes lie in shared memory, 1024-byte aligned.
template <int kTokens>
__device__ inline void multiply_box(float (&d)[kTokens / 2], const std::byte* weights, const std::byte* x,
                                    bool accumulate) {
  const std::uint64_t a = ptx::wgmma_descriptor(weights, ptx::SmemSwizzle::k128B, kGroupBytes);
  const std::uint64_t b = ptx::wgmma_descriptor(x, ptx::SmemSwizzle::k128B, kGroupBytes);
#pragma unroll
  for (int i = 0; i < kMmasPerBox; ++i) {
    constexpr int kStep = kMmaBytes / 16;
    ptx::wgmma_bf16<kTokens>(d, a + i * kStep, b + i * kStep, accumulate || i > 0);
  }
}

/// The same with the weights in registers, as a group of its own.
template <int kTokens>
__device__ inline void multiply_operand(float (&d)[kTokens / 2], const std::uint32_t (&a)[kMmasPerBox][4],
                                        const std::byte* x, bool accumulate) {
  const std::uint64_t b = ptx::wgmma_descriptor(x, ptx::SmemSwizzle::k128B, kGroupBytes);
  ptx::wgmma_fence();
#pragma unroll
  for (int i = 0; i < kMmasPerBox; ++i) {
    ptx::wgmma_bf16<kTokens>(d, a[i], b + i * (kMmaBytes / 16), accumulate || i > 0);
  }
  ptx::wgmma_commit();
}

/// Keeps an operand's registers from being used for anything else up to here: once its instructions are done.
__device__ inline void hold_operand(const std::uint32_t (&a)[kMmasPerBox][4]) {
#pragma unroll
  for (const auto& fragment : a) {
#pragma unroll
    for (const std::uint32_t word : fragment) ptx::wgmma_hold_operand(word);
  }
}

/// Where a row's 16-byte chunk lies in a box that TMA swizzled over its rows of 128 or 64 bytes.
template <int kRowBytes>
__device__ inline int swizzled_chunk(int row, int chunk) {
  static_assert(kRowBytes == 128 || kRowBytes == 64);
  return kRowBytes == 128 ? chunk ^ row % 8 : chunk ^ row / 2 % 4;
}

/// A thread's part of the A operand for 64 inputs, dequantised from FP8: four instructions' worth, from
/// 16-byte chunk `first_chunk` of the box on. `row`: of the box, the thread's first; `quad`: lane % 4, which
/// pair of every 8 inputs is its own. `multipliers`: of the first 32 inputs and of the others.
template <int kRowBytes>
__device__ inline void dequantise_operand(std::uint32_t (&a)[kMmasPerBox][4], const std::byte* weights,
                                          int first_chunk, int row, int quad,
                                          const std::uint32_t (&multipliers)[2]) {
  const std::byte* pairs = weights + row * kRowBytes + 2 * quad;
  const auto pair_at = [&](int chunk, int offset) {
    const std::byte* at = pairs + swizzled_chunk<kRowBytes>(row, chunk) * kMmaInputs + offset;
    return dequantise_e4m3_pair(*reinterpret_cast<const std::uint16_t*>(at),
                                multipliers[(chunk - first_chunk) / (kMmasPerBox / 2)]);
  };
#pragma unroll
  for (int i = 0; i < kMmasPerBox; ++i) {
    constexpr int kUpper = kMmaInputs / 2, kBelow = kGroupRows * kRowBytes;
    const int chunk = first_chunk + i;  // 16 codes are one instruction's inputs
    a[i][0] = pair_at(chunk, 0);
    a[i][1] = pair_at(chunk, kBelow);
    a[i][2] = pair_at(chunk, kUpper);
    a[i][3] = pair_at(chunk, kBelow + kUpper);
  }
}

/// The scales of a tile's weights as a warp takes them, from tile to tile: of slice `lane` of every 32 what
/// its 16 rows have. kFp8: one float32 scale a slice; kFp8x32: four e8m0 codes, in a word.
template <WeightFormat kWeights>
class SliceScales {
 public:
  static constexpr bool kSmallBlocks = kWeights == WeightFormat::kFp8x32;

  /// `first_row`: of the warp, in the matrix that has `scales`; those past its last row are as good as that.
  __device__ SliceScales(const void* scales, int first_row, int num_rows, int num_slices)
      : words_(static_cast<const std::uint32_t*>(scales) +
               std::int64_t{min(first_row, num_rows - 1) / kBlockRows} * num_slices),
        num_slices_(num_slices) {}

  /// Of both halves of a slice of 128 inputs, for each 32 of them.
  struct Multipliers {
    std::uint32_t of_half[kBoxesPerSlice][2];
  };
  [[nodiscard]] __device__ Multipliers at(int slice) const { return multipliers(__ldg(words_ + slice)); }
  /// The same of a warp that takes one slice after the other, from a multiple of 32 on.
  [[nodiscard]] __device__ Multipliers next(int slice, int lane) {
    if (slice % kWarpThreads == 0 && slice + lane < num_slices_) lane_word_ = __ldg(words_ + slice + lane);
    return multipliers(__shfl_sync(0xFFFFFFFF, lane_word_, slice % kWarpThreads));
  }

 private:
  static constexpr int kBlockRows = format_layout(kWeights).scale_rows;
  static_assert(kBlockRows % kWarpOutputs == 0);

  [[nodiscard]] static __device__ Multipliers multipliers(std::uint32_t word) {
    Multipliers all;
#pragma unroll
    for (int half = 0; half < kBoxesPerSlice; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        all.of_half[half][i] = kSmallBlocks ? e4m3_multiplier_of_code(word >> (16 * half + 8 * i) & 0xFFu)
                                            : e4m3_multiplier(__uint_as_float(word));
      }
    }
    return all;
  }

  const std::uint32_t* words_;
  int num_slices_;
  std::uint32_t lane_word_ = 0;
};

/// Of accumulator i of thread t of a warpgroup: row of the operand, column of the tokens (ptx/wgmma_bf16.h).
__device__ inline int operand_row(int thread, int i) {
  return thread / kWarpThreads * 16 + thread % kWarpThreads / 4 + (i % 4 < 2 ? 0 : kGroupRows);
}
__device__ inline int token_column(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

template <int kCount>
__device__ inline void hold(float (&d)[kCount]) {
#pragma unroll
  for (float& value : d) ptx::wgmma_hold(value);
}

/// Value by value: a warp writes 8 outputs of 4 tokens at once.
template <int kSums>
__device__ inline void store_each(const Bf16Products::Product& product, const float (&sums)[kSums],
                                  int first_output, int first_token, int num_rows, int thread) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int output = first_output + operand_row(thread, i), token = first_token + token_column(thread, i);
    if (output < product.num_outputs && token < num_rows) store_output(product, token, output, sums[i]);
  }
}

constexpr int kMaxStages = 32;
using Bf16Barriers = RingBarriers<kMaxStages>;

/// A block's ring: a stage is a piece of weights and the tokens that meet it.
struct Ring {
  std::byte* stages;
  Bf16Barriers& barriers;
  int num_stages;
  int weight_bytes;
  int stage_bytes;

  __device__ std::byte* weights(const RingPlace& at) const { return stages + at.stage * stage_bytes; }
  __device__ std::byte* tokens(const RingPlace& at) const { return weights(at) + weight_bytes; }
};

constexpr int kSharedBytes = 227 << 10;  // of a block

struct Bf16Launch {
  void (*kernel)(Bf16Products, NextAtOnce);
  dim3 grid;
  int threads;
  int shared_bytes;
  int cluster_blocks = 1;
};

inline void launch_bf16(const Bf16Launch& launch, const Bf16Products& parameters, CudaContext& context) {
  launch_kernel("multiplying in BF16", launch.kernel,
                {.grid = launch.grid,
                 .threads = launch.threads,
                 .shared_bytes = launch.shared_bytes,
                 .cluster = launch.cluster_blocks},
                context.stream, parameters);
}

/// Calls `launch(std::integral_constant<int, N>())` with the smallest tile of N = 8, 16, 32 or 64 tokens that
/// holds `num_rows`; 64 beyond.
template <class Launch>
void with_token_tile(std::int64_t num_rows, Launch launch) {
  if (num_rows <= 8) {
    launch(std::integral_constant<int, 8>());
  } else if (num_rows <= 16) {
    launch(std::integral_constant<int, 16>());
  } else if (num_rows <= 32) {
    launch(std::integral_constant<int, 32>());
  } else {
    launch(std::integral_constant<int, 64>());
  }
}

}  // namespace baleen::sm90
