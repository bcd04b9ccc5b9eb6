/// CUDA's errors as sentences.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

#include "base/error.h"

namespace baleen {

/// A device error that no later call will survive (an illegal address, a launch that failed, ...): the process should
/// end in order, everything on disk intact.
class StickyCudaError : public Error {
 public:
  using Error::Error;
};

/// Throws `Error` (`StickyCudaError` where the context is lost) unless `status` is success. `what`: what was being done,
/// e.g. "allocating 3.2 GB".
void check_cuda(cudaError_t status, const char* what,
                std::source_location where = std::source_location::current());

/// After a kernel launch: throws if it could not be queued.
inline void check_launch(const char* kernel, std::source_location where = std::source_location::current()) {
  check_cuda(cudaPeekAtLastError(), kernel, where);
}

}  // namespace baleen
