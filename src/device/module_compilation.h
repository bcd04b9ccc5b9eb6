/// The driver's compilation of a module's PTX, for a GPU that the module has no machine code for. The
/// runtime has one part of a module compiled after the other, when it first needs one; here all are, by as
/// many threads as there are cores, into the cache where the runtime then finds them (compile_cache.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace baleen {

/// The fat binaries of a module, one for each source file, as nvcc lays them out in section .nv_fatbin of a
/// 64-bit ELF file. Views of `module`; none where it is no such file.
[[nodiscard]] std::vector<std::span<const std::byte>> fat_binaries(std::span<const std::byte> module);

/// Has the driver compile what it has not in its cache of the module in file `path`, for GPU `gpu`, whose
/// primary context it keeps. Returns the number of parts that the driver took: 0 where the cache would not
/// keep them or the driver is older than CUDA 12; what it does not take the runtime compiles, and says what
/// is wrong. `driver`: as the loader finds it. Throws `Error` where the file cannot be read.
int compile_module(const std::string& path, int gpu, const char* driver = "libcuda.so.1");

}  // namespace baleen
