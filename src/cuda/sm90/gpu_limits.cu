#include "cuda/sm90/gpu_limits.h"

#include "cuda/limit_timing.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "cuda/ptx/wgmma_e4m3.h"

namespace baleen::sm90 {
namespace {

constexpr int kTileRows = 64;  // of A
constexpr int kTileColumns = 256;
constexpr int kTileBytes = 128;  // along K: one swizzled row
constexpr int kSteps = 4096;     // of 128 bytes each
constexpr int kWarpgroups = 2;

/// Products of one pair of tiles, over and over. Codes are random, and finite in both formats.
template <bool kFp8>
__global__ void __launch_bounds__(128 * kWarpgroups, 1) multiply_tiles(float* out) {
  extern __shared__ unsigned char shared[];
  auto* tiles = reinterpret_cast<unsigned char*>((reinterpret_cast<std::uintptr_t>(shared) + 1023) &
                                                 ~std::uintptr_t{1023});
  constexpr int kBytes = (kTileRows * kWarpgroups + kTileColumns) * kTileBytes;
  unsigned state = threadIdx.x * 2654435761U + 12345U;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < kBytes; i += static_cast<int>(blockDim.x) * 4) {
    state = state * 1664525U + 1013904223U;
    *reinterpret_cast<unsigned*>(tiles + i) =
        kFp8 ? state & 0xB7B7B7B7U : (state & 0x807F807FU) | 0x3F003F00U;
  }
  ptx::fence_proxy_async();
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const std::uint64_t a =
      ptx::wgmma_descriptor(tiles + warpgroup * kTileRows * kTileBytes, ptx::SmemSwizzle::k128B, 1024);
  const std::uint64_t b =
      ptx::wgmma_descriptor(tiles + kWarpgroups * kTileRows * kTileBytes, ptx::SmemSwizzle::k128B, 1024);
  float d[kTileColumns / 2] = {};
  for (int step = 0; step < kSteps; ++step) {
    ptx::wgmma_fence();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      if constexpr (kFp8) {
        ptx::wgmma_e4m3<kTileColumns>(d, a + 2 * piece, b + 2 * piece, true);
      } else {
        ptx::wgmma_bf16<kTileColumns>(d, a + 2 * piece, b + 2 * piece, true);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }
  float sum = 0;
  for (const float value : d) sum += value;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <bool kFp8>
double tensor_flops(cudaStream_t stream, int num_sms, float* out) {
  constexpr int kSharedBytes = (kTileRows * kWarpgroups + kTileColumns) * kTileBytes + 1024;
  check_cuda(
      cudaFuncSetAttribute(multiply_tiles<kFp8>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
      "measuring the GPU");
  const double seconds = median_seconds(stream, [&] {
    multiply_tiles<kFp8><<<num_sms, 128 * kWarpgroups, kSharedBytes, stream>>>(out);
    check_launch("multiply_tiles");
  });
  const double per_step = 2.0 * kTileRows * kTileColumns * (kFp8 ? kTileBytes : kTileBytes / 2);
  return per_step * kSteps * kWarpgroups * num_sms / seconds;
}

}  // namespace

GpuLimits measure_gpu_limits(CUstream_st* stream, int num_sms) {
  GpuLimits limits;
  limits.copy_bytes_per_second = copied_bytes_per_second(stream);
  CudaMemory memory(stream);
  const Buffer sums(std::int64_t{num_sms} * 128 * kWarpgroups * std::int64_t{sizeof(float)}, memory);
  auto* out = reinterpret_cast<float*>(sums.data());
  limits.bf16_flops_per_second = tensor_flops<false>(stream, num_sms, out);
  limits.fp8_flops_per_second = tensor_flops<true>(stream, num_sms, out);
  return limits;
}

}  // namespace baleen::sm90
