#include "bf16_matmul_reference.h"

#include "cuda/cuda_error.h"

namespace baleen::bench {
namespace {

constexpr int kBlocks = 1024;
constexpr int kThreads = 256;

__device__ std::uint32_t hash(std::uint64_t value) {
  value = (value ^ value >> 31) * 0x7FB5D329728EA185;
  value = (value ^ value >> 27) * 0x81DADEF4BC2DD44D;
  return static_cast<std::uint32_t>(value >> 32);
}

__global__ void fill_bf16_kernel(std::uint16_t* values, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const std::uint32_t bits = hash(seed + i);
    values[i] = static_cast<std::uint16_t>((bits & 0x807F) | (120 + bits / 256 % 7) << 7);
  }
}
__global__ void fill_e4m3_kernel(std::uint8_t* codes, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const std::uint32_t bits = hash(seed + i);
    codes[i] = static_cast<std::uint8_t>((bits & 0x7F) == 0x7F ? 0 : bits);
  }
}
__global__ void fill_scales_kernel(float* scales, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    scales[i] = exp2f(static_cast<float>(i % 4) - 8.0F);
  }
}

__device__ double bf16_value(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}
__device__ double e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? ldexp(double(mantissa), -9) : ldexp(double(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

__global__ void compare_kernel(BenchProduct c, double* squares) {
  constexpr int kSamples = 64;
  for (int sample = 0; sample < kSamples; ++sample) {
    const std::int64_t at =
        (hash(threadIdx.x + blockDim.x * (blockIdx.x + gridDim.x * sample))) % (c.num_rows * c.num_outputs);
    const std::int64_t row = at / c.num_outputs, n = at % c.num_outputs;
    const std::int64_t group = n / (c.num_outputs / c.num_groups);
    double want = 0;
    for (std::int64_t k = 0; k < c.num_inputs; ++k) {
      const double w =
          c.scales == nullptr
              ? bf16_value(reinterpret_cast<const std::uint16_t*>(c.weight)[n * c.num_inputs + k])
              : e4m3_value(reinterpret_cast<const std::uint8_t*>(c.weight)[n * c.num_inputs + k]) *
                    c.scales[n / 128 * (c.num_inputs / 128) + k / 128];
      want += w * bf16_value(c.x[(row * c.num_groups + group) * c.num_inputs + k]);
    }
    const double got = c.y_is_bf16 ? bf16_value(reinterpret_cast<const std::uint16_t*>(c.y)[at])
                                   : reinterpret_cast<const float*>(c.y)[at];
    atomicAdd(&squares[0], (got - want) * (got - want));
    atomicAdd(&squares[1], want * want);
  }
}

}  // namespace

void fill_bf16(std::uint16_t* values, std::int64_t count, std::uint64_t seed, cudaStream_t stream) {
  fill_bf16_kernel<<<kBlocks, kThreads, 0, stream>>>(values, count, seed);
  check_launch("fill_bf16");
}

void fill_e4m3(std::uint8_t* codes, std::int64_t count, std::uint64_t seed, cudaStream_t stream) {
  fill_e4m3_kernel<<<kBlocks, kThreads, 0, stream>>>(codes, count, seed);
  check_launch("fill_e4m3");
}

void fill_scales(float* scales, std::int64_t count, cudaStream_t stream) {
  fill_scales_kernel<<<kBlocks, kThreads, 0, stream>>>(scales, count);
  check_launch("fill_scales");
}

void compare(const BenchProduct& product, double* squares, cudaStream_t stream) {
  constexpr int kCompareBlocks = 64, kCompareThreads = 64;
  compare_kernel<<<kCompareBlocks, kCompareThreads, 0, stream>>>(product, squares);
  check_launch("compare");
}

}  // namespace baleen::bench
