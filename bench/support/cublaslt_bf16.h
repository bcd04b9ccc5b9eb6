/// cuBLASLt's BF16 product, for comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/support/cublaslt_library.h"

namespace baleen::bench {

/// Row-major y [T, G N] = x [T, G, K] W [G N, K]^T.
class CublasLtBf16 {
 public:
  explicit CublasLtBf16(cudaStream_t stream) : stream_(stream) {}

  [[nodiscard]] bool found() const { return blas_.found(); }

  void prepare(std::int64_t rows, std::int64_t groups, std::int64_t inputs, std::int64_t outputs,
               bool y_is_bf16) {
    blas_.create_desc(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    blas_.set_desc(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    const std::uint64_t n = outputs / groups, k = inputs, t = rows;
    make_layout(w_, CUDA_R_16BF, k, n, k, groups, n * k);
    make_layout(x_, CUDA_R_16BF, k, t, groups * k, groups, k);
    make_layout(y_, y_is_bf16 ? CUDA_R_16BF : CUDA_R_32F, n, t, outputs, groups, n);
    algorithms_.resize(CublasLtLibrary::kProposals);
    int count = 0;
    blas_.heuristic(blas_.handle, desc_, w_, x_, y_, y_, blas_.preference(),
                    static_cast<int>(algorithms_.size()), algorithms_.data(), &count);
    algorithms_.resize(static_cast<std::size_t>(count));
  }
  [[nodiscard]] std::size_t num_algorithms() const { return algorithms_.size(); }

  void run(std::size_t algorithm, const void* w, const void* x, void* y) {
    const float one = 1, zero = 0;
    blas_.matmul(blas_.handle, desc_, &one, w, w_, x, x_, &zero, y, y_, y, y_, &algorithms_[algorithm].algo,
                 blas_.workspace, CublasLtLibrary::kWorkspaceBytes, stream_);
  }

 private:
  void make_layout(cublasLtMatrixLayout_t& layout, cudaDataType type, std::uint64_t rows,
                   std::uint64_t columns, std::int64_t leading, std::int64_t count, std::int64_t stride) {
    blas_.create_layout(&layout, type, rows, columns, leading);
    const auto batch = static_cast<std::int32_t>(count);
    blas_.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch));
    blas_.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
  }

  cudaStream_t stream_;
  CublasLtLibrary blas_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

}  // namespace baleen::bench
