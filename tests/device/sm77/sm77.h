/// A made-up architecture, the example of docs/adding_an_architecture.md. Its kernels are plain functions
/// on the host's memory, so that it needs neither toolkit nor GPU.
#pragma once

#include "device/cuda/gpu_kernels.h"
#include "device/gpu_architecture.h"

namespace baleen {

/// The row; a real one stands in src/device/gpu_architectures.cc.
inline constexpr GpuArchitecture kSm77{
    .name = "sm77",
    .least = {7, 7},
    .most = {7, 9},
    .gpus = "Made-up 1000",
    .compiler_flags = "-gencode=arch=compute_77,code=[compute_77,sm_77]",
    .traits = {.architecture = "sm77",
               .activation_type = ElementType::kBf16,
               .shares_host_memory = false,
               .queues = true,
               .released_only = true,
               .num_units = 8,
               .shared_bytes_per_block = 99 << 10,
               .l2_bytes = 6 << 20,
               .rates = {.memory_bytes_per_second = 1e11, .launch_seconds = 2e-6}}};

namespace sm77 {

[[nodiscard]] GpuKernels kernels();

}  // namespace sm77
}  // namespace baleen
