/// OpenBLAS, loaded when the first product is computed: what it reads from the environment is set before, and
/// programs that never train do without it.
#pragma once

#include <cblas.h>

namespace baleen {

struct OpenBlas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
};

/// One thread a call, kernels of the instruction set in use. Loads it at the first call; throws `Error` that
/// names the package where it is missing.
const OpenBlas& open_blas();

}  // namespace baleen
