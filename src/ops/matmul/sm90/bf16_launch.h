/// Launches of the kernels of BF16 products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/kernel_launch.h"
#include "ops/matmul/sm90/bf16_device.cuh"
#include "ops/matmul/sm90/bf16_products.h"

namespace baleen::sm90 {

constexpr int kSharedBytes = 227 << 10;  // of a block

struct Bf16Launch {
  void (*kernel)(Bf16Products);
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

/// Launches a kernel whose blocks take tile after tile, each with whole K, in the stages of `S`.
template <class S>
void launch_stream(void (*kernel)(Bf16Products), int threads, int shared_bytes, const Bf16Work& work,
                   CudaContext& context) {
  const Bf16Products parameters = make_products(work, {.tile_outputs = S::kTileOutputs,
                                                       .weight_bytes = kBoxRowBytes,
                                                       .weight_columns = S::kWeightBoxes,
                                                       .tokens = S::kTokens,
                                                       .token_columns = kBoxesPerSlice});
  launch_bf16({.kernel = kernel,
               .grid = {static_cast<unsigned>(std::min(parameters.num_tiles, context.num_sms)),
                        static_cast<unsigned>((work.num_rows + S::kTokens - 1) / S::kTokens), 1},
               .threads = threads,
               .shared_bytes = shared_bytes},
              parameters, context);
}

}  // namespace baleen::sm90
