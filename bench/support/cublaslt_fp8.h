/// cuBLASLt's FP8 product, for comparison.
#pragma once

#include <vector>

#include "bench/support/cublaslt_library.h"
#include "bench/support/cuda_bench.h"

namespace baleen::bench {

/// What cuBLASLt multiplies by a scale: all of an operand, or as our kernels blocks of 128 x 128 weights and of 128 values
/// of a token (which libraries before 12.9 do not know).
enum class Fp8Scales { kOperand, kBlock };

/// y [T, N] BF16 = x [T, K] e4m3 times W [N, K]^T e4m3.
class CublasLtFp8 {
 public:
  CublasLtFp8() {
    if (!blas_.found()) return;
    constexpr std::size_t kScales = std::size_t{1} << 20;  // all one, more than any operand has
    const std::vector<float> ones(kScales, 1.0F);
    check_cuda(cudaMalloc(&ones_, kScales * sizeof(float)), "allocating scales");
    check_cuda(cudaMemcpy(ones_, ones.data(), kScales * sizeof(float), cudaMemcpyHostToDevice),
               "copying scales");
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
  Plan best(cudaStream_t stream, Fp8Scales scales, std::int64_t tokens, std::int64_t outputs,
            std::int64_t inputs, const std::vector<const void*>& weights, const void* x, void* y) {
    Plan plan;
    tokens = (tokens + 15) / 16 * 16;
    blas_.create_desc(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof(plain));
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &ones_, sizeof(ones_));
    blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &ones_, sizeof(ones_));
    if (scales == Fp8Scales::kBlock) {
      const cublasLtMatmulMatrixScale_t of_weights = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
      const cublasLtMatmulMatrixScale_t of_tokens = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
      blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &of_weights, sizeof(of_weights));
      blas_.set_desc(plan.desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &of_tokens, sizeof(of_tokens));
    }
    const std::int8_t fast = scales == Fp8Scales::kOperand;
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
  float* ones_ = nullptr;
};

}  // namespace baleen::bench
