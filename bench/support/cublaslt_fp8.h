/// cuBLASLt's FP8 product, for comparison.
#pragma once

#include <vector>

#include "bench/support/cublaslt_library.h"
#include "bench/support/cuda_bench.h"

namespace baleen::bench {

/// y [T, N] BF16 = x [T, K] e4m3 times W [N, K]^T e4m3, one scale for each operand.
class CublasLtFp8 {
 public:
  CublasLtFp8() {
    if (!blas_.found()) return;
    check_cuda(cudaMalloc(&one_, sizeof(float)), "allocating a scale");
    const float one = 1.0F;
    check_cuda(cudaMemcpy(one_, &one, sizeof(one), cudaMemcpyHostToDevice), "copying a scale");
  }
  [[nodiscard]] bool found() const { return blas_.found(); }

  /// A planned product: the fastest of the library's proposals.
  struct Plan {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    Timing timing;  ///< of the fastest; median 0: the library has none for this shape
  };

  /// Times every proposal on rotating weights and keeps the best. The library wants multiples of 16 tokens: `x` and `y`
  /// have room for them.
  Plan best(cudaStream_t stream, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
            const std::vector<const void*>& weights, const void* x, void* y) {
    Plan plan;
    tokens = (tokens + 15) / 16 * 16;
    blas_.create_desc(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof(plain));
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &one_, sizeof(one_));
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &one_, sizeof(one_));
    const std::int8_t fast = 1;
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));
    blas_.create_layout(&plan.a, CUDA_R_8F_E4M3, inputs, outputs, inputs);
    blas_.create_layout(&plan.b, CUDA_R_8F_E4M3, inputs, tokens, inputs);
    blas_.create_layout(&plan.d, CUDA_R_16BF, outputs, tokens, outputs);
    cublasLtMatmulHeuristicResult_t proposals[CublasLtLibrary::kProposals];
    int found = 0;
    blas_.heuristic(blas_.handle, plan.desc, plan.a, plan.b, plan.d, plan.d, blas_.preference(),
                    CublasLtLibrary::kProposals, proposals, &found);
    for (int i = 0; i < found; ++i) {
      Plan candidate = plan;
      candidate.algorithm = proposals[i].algo;
      if (run(candidate, stream, weights[0], x, y) != CUBLAS_STATUS_SUCCESS) continue;
      candidate.timing = time_launches(
          stream, static_cast<int>(weights.size()),
          [&](int input) { run(candidate, stream, weights[static_cast<std::size_t>(input)], x, y); }, 7);
      if (plan.timing.median_us == 0 || candidate.timing.median_us < plan.timing.median_us) plan = candidate;
    }
    return plan;
  }

  cublasStatus_t run(const Plan& plan, cudaStream_t stream, const void* weights, const void* x, void* y) {
    const float alpha = 1.0F, beta = 0.0F;
    return blas_.matmul(blas_.handle, plan.desc, &alpha, weights, plan.a, x, plan.b, &beta, y, plan.d, y,
                        plan.d, &plan.algorithm, blas_.workspace, CublasLtLibrary::kWorkspaceBytes, stream);
  }

 private:
  CublasLtLibrary blas_;
  float* one_ = nullptr;
};

}  // namespace baleen::bench
