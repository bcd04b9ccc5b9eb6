/// Products with BF16 activations, as the operations describe a launch to an architecture's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/matmul/weight_matrix.h"
#include "tensor/activations.h"

namespace baleen::BALEEN_ARCH {

/// One launch.
struct Bf16Work {
  struct Output {
    const WeightMatrix* weight = nullptr;  ///< [G N, K]
    Activations<2> y;                      ///< [T, G N]
  };

  const std::byte* x = nullptr;  ///< BF16 [T, G, K]
  std::int64_t num_rows = 0;     ///< T
  std::int64_t num_groups = 1;   ///< G: rows [g N, (g + 1) N) of a weight multiply x[:, g, :]
  std::int64_t num_inputs = 0;   ///< K
  std::int64_t row_stride = 0;   ///< elements from row to row of x
  std::int64_t group_stride = 0;
  int num_segments = 1;  ///< a sum's, where an architecture cuts sums into several
  std::span<const Output> outputs;
};

/// Work of any size, by the kernel that is predicted to take the least time.
void run_bf16(const Bf16Work& work, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
