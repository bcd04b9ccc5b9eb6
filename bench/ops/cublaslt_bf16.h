/// cuBLASLt's BF16 product, loaded at run time: the figure to beat.
#pragma once

#include <cublasLt.h>
#include <dlfcn.h>
#include <glob.h>

#include <cstdint>
#include <vector>

#include "cuda/cuda_error.h"

namespace baleen::bench {

/// Row-major y [T, G N] = x [T, G, K] W [G N, K]^T by cuBLASLt, loaded at run time.
class CublasLt {
 public:
  explicit CublasLt(cudaStream_t stream) : stream_(stream) {
    library_ = open();
    if (library_ == nullptr) return;
    load(create_, "cublasLtCreate");
    load(matmul_, "cublasLtMatmul");
    load(create_desc_, "cublasLtMatmulDescCreate");
    load(set_desc_, "cublasLtMatmulDescSetAttribute");
    load(create_layout_, "cublasLtMatrixLayoutCreate");
    load(set_layout_, "cublasLtMatrixLayoutSetAttribute");
    load(create_preference_, "cublasLtMatmulPreferenceCreate");
    load(set_preference_, "cublasLtMatmulPreferenceSetAttribute");
    load(heuristic_, "cublasLtMatmulAlgoGetHeuristic");
    create_(&handle_);
    check_cuda(cudaMalloc(&workspace_, kWorkspaceBytes), "allocating cuBLASLt's workspace");
  }

  [[nodiscard]] bool found() const { return library_ != nullptr; }

  void prepare(std::int64_t rows, std::int64_t groups, std::int64_t inputs, std::int64_t outputs,
               bool y_is_bf16) {
    create_desc_(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    set_desc_(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    const std::uint64_t n = outputs / groups, k = inputs, t = rows;
    make_layout(w_, CUDA_R_16BF, k, n, k, groups, n * k);
    make_layout(x_, CUDA_R_16BF, k, t, groups * k, groups, k);
    make_layout(y_, y_is_bf16 ? CUDA_R_16BF : CUDA_R_32F, n, t, outputs, groups, n);
    cublasLtMatmulPreference_t preference = nullptr;
    create_preference_(&preference);
    const std::size_t workspace = kWorkspaceBytes;
    set_preference_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
    algorithms_.resize(6);
    int count = 0;
    heuristic_(handle_, desc_, w_, x_, y_, y_, preference, static_cast<int>(algorithms_.size()),
               algorithms_.data(), &count);
    algorithms_.resize(static_cast<std::size_t>(count));
  }
  [[nodiscard]] std::size_t num_algorithms() const { return algorithms_.size(); }

  void run(std::size_t algorithm, const void* w, const void* x, void* y) {
    const float one = 1, zero = 0;
    matmul_(handle_, desc_, &one, w, w_, x, x_, &zero, y, y_, y, y_, &algorithms_[algorithm].algo, workspace_,
            kWorkspaceBytes, stream_);
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

  static void* open() {
    for (const char* name :
         {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"}) {
      if (void* library = dlopen(name, RTLD_NOW)) return library;
    }
    for (const char* pattern : {"/usr/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?",
                                "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?",
                                "/opt/*/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?"}) {
      glob_t found{};
      if (glob(pattern, 0, nullptr, &found) == 0) {
        for (std::size_t i = 0; i < found.gl_pathc; ++i) {
          if (void* library = dlopen(found.gl_pathv[i], RTLD_NOW)) return library;
        }
      }
      globfree(&found);
    }
    return nullptr;
  }
  template <class Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }
  void make_layout(cublasLtMatrixLayout_t& layout, cudaDataType type, std::uint64_t rows,
                   std::uint64_t columns, std::int64_t leading, std::int64_t count, std::int64_t stride) {
    create_layout_(&layout, type, rows, columns, leading);
    const auto batch = static_cast<std::int32_t>(count);
    set_layout_(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch));
    set_layout_(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
  }

  cudaStream_t stream_;
  void* library_ = nullptr;
  void* workspace_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
  decltype(&cublasLtCreate) create_ = nullptr;
  decltype(&cublasLtMatmul) matmul_ = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_desc_ = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc_ = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout_ = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout_ = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference_ = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference_ = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_ = nullptr;
};

}  // namespace baleen::bench
