/// The driver's cache of kernels that it compiled from a module's PTX, for GPUs that the module has no
/// machine code for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/gpu_architecture.h"

namespace baleen {

/// Makes the cache large enough for a module, by CUDA_CACHE_MAXSIZE, where the environment does not say how
/// large it is: drivers before 12.0 give it less. Before the driver is initialised, by one thread.
void enlarge_compile_cache();

/// Whether, as the environment says, it keeps what is compiled of a module of so many bytes.
[[nodiscard]] bool compile_cache_keeps(std::int64_t module_bytes);

/// What is to be said before a module of so many bytes is compiled for such a GPU, which in later starts, as
/// the environment says, need not be done again, or must.
[[nodiscard]] std::string compilation_text(std::string_view module, std::int64_t module_bytes,
                                           ComputeCapability capability);

}  // namespace baleen
