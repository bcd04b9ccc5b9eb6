/// cuBLASLt, found at run time, so that nothing here needs it: what products are held against.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>

#include "cuda/cuda_error.h"

namespace baleen::bench {

/// The functions that the benchmarks call, a handle and a workspace. All null where the library is not `found`.
struct CublasLtLibrary {
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
  static constexpr int kProposals = 6;  ///< of the heuristic, to choose the fastest from

  CublasLtLibrary() : library(open()) {
    if (library == nullptr) return;
    load(create, "cublasLtCreate");
    load(matmul, "cublasLtMatmul");
    load(create_desc, "cublasLtMatmulDescCreate");
    load(set_desc, "cublasLtMatmulDescSetAttribute");
    load(create_layout, "cublasLtMatrixLayoutCreate");
    load(set_layout, "cublasLtMatrixLayoutSetAttribute");
    load(create_preference, "cublasLtMatmulPreferenceCreate");
    load(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    load(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    if (create(&handle) != CUBLAS_STATUS_SUCCESS) library = nullptr;
    check_cuda(cudaMalloc(&workspace, kWorkspaceBytes), "allocating cuBLASLt's workspace");
  }
  [[nodiscard]] bool found() const { return library != nullptr; }

  [[nodiscard]] cublasLtMatmulPreference_t preference() const {
    cublasLtMatmulPreference_t wanted = nullptr;
    create_preference(&wanted);
    set_preference(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                   sizeof(kWorkspaceBytes));
    return wanted;
  }

  void* library = nullptr;
  void* workspace = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_desc = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

 private:
  /// BALEEN_CUBLASLT names it; otherwise where the loader looks, the toolkit, or some Python's packages.
  static void* open() {
    if (const char* named = std::getenv("BALEEN_CUBLASLT")) return dlopen(named, RTLD_NOW);
    for (const char* name :
         {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"}) {
      if (void* opened = dlopen(name, RTLD_NOW)) return opened;
    }
    for (const char* pattern : {"/usr/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?",
                                "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?",
                                "/opt/*/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?"}) {
      glob_t files{};
      void* opened = nullptr;
      if (glob(pattern, 0, nullptr, &files) == 0) {
        for (std::size_t i = 0; i < files.gl_pathc && opened == nullptr; ++i) {
          opened = dlopen(files.gl_pathv[i], RTLD_NOW);
        }
      }
      globfree(&files);
      if (opened != nullptr) return opened;
    }
    return nullptr;
  }
  template <class Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
};

}  // namespace baleen::bench
