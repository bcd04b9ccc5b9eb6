#include "cuda/sm80/gpu_limits.h"

#include "cuda/limit_timing.h"
#include "cuda/ptx/mma_bf16.h"

namespace baleen::sm80 {
namespace {

constexpr int kThreads = 256;
constexpr int kSums = 16;  // of a warp, each of 16 x 8 values: enough to hide an instruction's latency
constexpr int kSteps = 4096;

/// Products of the same operands, over and over. Operands are in registers, as kernels that reuse them have
/// them.
__global__ void __launch_bounds__(kThreads) multiply_fragments(float* out) {
  unsigned state = threadIdx.x * 2654435761U + 12345U;
  const auto next = [&] {  // two finite values
    state = state * 1664525U + 1013904223U;
    return (state & 0x807F807FU) | 0x3F003F00U;
  };
  unsigned a[4], b[2];
  for (unsigned& word : a) word = next();
  for (unsigned& word : b) word = next();
  float d[kSums][4] = {};
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (float(&sums)[4] : d) ptx::mma_16x8x16(sums, a[0], a[1], a[2], a[3], b[0], b[1]);
  }
  float sum = 0;
#pragma unroll
  for (const float(&sums)[4] : d) sum += sums[0] + sums[1] + sums[2] + sums[3];
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

}  // namespace

GpuLimits measure_gpu_limits(CUstream_st* stream, int num_sms) {
  constexpr int kBlocksPerSm = 2;
  const int num_blocks = kBlocksPerSm * num_sms;
  CudaMemory memory(stream);
  const Buffer sums(std::int64_t{num_blocks} * kThreads * std::int64_t{sizeof(float)}, memory);
  auto* out = reinterpret_cast<float*>(sums.data());
  const double seconds = median_seconds(stream, [&] {
    multiply_fragments<<<num_blocks, kThreads, 0, stream>>>(out);
    check_launch("multiply_fragments");
  });
  constexpr double kFlops = 2.0 * 16 * 8 * 16, kWarps = kThreads / 32;
  return {.copy_bytes_per_second = copied_bytes_per_second(stream),
          .bf16_flops_per_second = kFlops * kSums * kSteps * kWarps * num_blocks / seconds};
}

}  // namespace baleen::sm80
