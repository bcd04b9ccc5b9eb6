/// Random operands of matrix products and a plain check of the results, on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace baleen::bench {

/// Signs, mantissas and seven binades below 1, at random.
void fill_bf16(std::uint16_t* values, std::int64_t count, std::uint64_t seed, cudaStream_t stream);
/// Any finite code.
void fill_e4m3(std::uint8_t* codes, std::int64_t count, std::uint64_t seed, cudaStream_t stream);
/// Powers of two.
void fill_scales(float* scales, std::int64_t count, cudaStream_t stream);

/// A product that was made: y [T, G N] = x [T, G, K] W [G N, K]^T.
struct BenchProduct {
  const std::uint16_t* x;
  const std::byte* weight;
  const float* scales;  ///< of FP8 weights
  const std::byte* y;
  std::int64_t num_rows, num_groups, num_inputs, num_outputs;
  bool y_is_bf16;
};

/// Adds to squares[0], [1] the squared differences and expectations (sums in double) of some thousand samples of y.
void compare(const BenchProduct& product, double* squares, cudaStream_t stream);

}  // namespace baleen::bench
