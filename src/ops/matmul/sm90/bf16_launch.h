/// Launches of the kernels of BF16 products.
#pragma once

#include "cuda/kernel_launch.h"
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

}  // namespace baleen::sm90
