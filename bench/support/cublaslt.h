/// cuBLASLt's FP8 product, for comparison: found at run time, so that nothing here needs it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bench/support/cuda_bench.h"

namespace baleen::bench {

/// y [T, N] BF16 = x [T, K] e4m3 times W [N, K]^T e4m3, one scale for each operand.
class CublasLt {
 public:
  CublasLt() {
    std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    if (const char* named = std::getenv("BALEEN_CUBLASLT")) names.insert(names.begin(), named);
    for (const std::string& name : names) {
      if (library_ == nullptr) library_ = dlopen(name.c_str(), RTLD_NOW);
    }
    if (library_ == nullptr) return;
    find(create_, "cublasLtCreate");
    find(desc_create_, "cublasLtMatmulDescCreate");
    find(desc_set_, "cublasLtMatmulDescSetAttribute");
    find(layout_create_, "cublasLtMatrixLayoutCreate");
    find(preference_create_, "cublasLtMatmulPreferenceCreate");
    find(preference_set_, "cublasLtMatmulPreferenceSetAttribute");
    find(heuristic_, "cublasLtMatmulAlgoGetHeuristic");
    find(matmul_, "cublasLtMatmul");
    if (create_(&handle_) != CUBLAS_STATUS_SUCCESS) library_ = nullptr;
    check_cuda(cudaMalloc(&workspace_, kWorkspaceBytes), "allocating a workspace");
    check_cuda(cudaMalloc(&one_, sizeof(float)), "allocating a scale");
    const float one = 1.0F;
    check_cuda(cudaMemcpy(one_, &one, sizeof(one), cudaMemcpyHostToDevice), "copying a scale");
  }
  [[nodiscard]] bool found() const { return library_ != nullptr; }

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
    desc_create_(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    desc_set_(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    desc_set_(plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof(plain));
    desc_set_(plan.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &one_, sizeof(one_));
    desc_set_(plan.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &one_, sizeof(one_));
    const std::int8_t fast = 1;
    desc_set_(plan.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));
    layout_create_(&plan.a, CUDA_R_8F_E4M3, inputs, outputs, inputs);
    layout_create_(&plan.b, CUDA_R_8F_E4M3, inputs, tokens, inputs);
    layout_create_(&plan.d, CUDA_R_16BF, outputs, tokens, outputs);
    cublasLtMatmulPreference_t preference = nullptr;
    preference_create_(&preference);
    preference_set_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                    sizeof(kWorkspaceBytes));
    constexpr int kProposals = 6;
    cublasLtMatmulHeuristicResult_t proposals[kProposals];
    int found = 0;
    heuristic_(handle_, plan.desc, plan.a, plan.b, plan.d, plan.d, preference, kProposals, proposals, &found);
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
    return matmul_(handle_, plan.desc, &alpha, weights, plan.a, x, plan.b, &beta, y, plan.d, y, plan.d,
                   &plan.algorithm, workspace_, kWorkspaceBytes, stream);
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  decltype(&cublasLtCreate) create_ = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create_ = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set_ = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create_ = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create_ = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_ = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_ = nullptr;
  decltype(&cublasLtMatmul) matmul_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  float* one_ = nullptr;
};

}  // namespace baleen::bench
