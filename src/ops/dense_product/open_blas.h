/// OpenBLAS, loaded when the first product is computed. It starts threads when it is loaded; a server, which
/// never trains, has none of them.
#pragma once

#include <cblas.h>

namespace baleen {

struct OpenBlas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
};

/// On one thread a call. Loads it at the first call; throws `Error` that names the package where it is missing.
const OpenBlas& open_blas();

}  // namespace baleen
