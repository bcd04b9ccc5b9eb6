/// CUDA's errors as sentences.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

#include "base/error.h"

namespace baleen {

/// Throws `Error` (`LostDevice` where no later call would work) unless `status` is success. `what`: what was
/// being done, e.g. "allocating 3.2 GB".
void check_cuda(cudaError_t status, const char* what,
                std::source_location where = std::source_location::current());

/// After a kernel launch: throws if it could not be queued.
inline void check_launch(const char* kernel, std::source_location where = std::source_location::current()) {
  check_cuda(cudaPeekAtLastError(), kernel, where);
}

}  // namespace baleen
