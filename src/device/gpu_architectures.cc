// The list of architectures. A row is all that the program, its plans and its build know of one.

#include <array>
#include <cstdint>

#include "device/gpu_architecture.h"
#include "tensor/captured_rows.h"

namespace baleen {
namespace {

constexpr std::array<GpuArchitecture, 2> kArchitectures{
    {{.name = "sm90",
      .least = {9, 0},
      .most = {9, 0},  // warpgroup instructions are no part of other architectures
      .gpus = "H100, H200",
      .compiler_flags = "-gencode=arch=compute_90a,code=sm_90a",
      .traits = {.architecture = "sm90",
                 .activation_type = ElementType::kBf16,
                 .shares_host_memory = false,
                 .queues = true,
                 .released_only = true,
                 .max_replayed_rows = kMaxGraphRows,
                 .overhead_bytes = std::int64_t{1} << 30,  // context, modules and captured graphs
                 .num_units = 132,                         // of the SXM parts; others have fewer
                 .shared_bytes_per_block = 227 << 10,
                 .l2_bytes = 50 << 20,
                 .has_fp8_units = true,
                 .has_tensor_copies = true,
                 .starts_kernels_early = true,
                 // What a copy reaches, and a product of one token beyond its bytes, on an H200
                 // (bench/results/kernels-h200.csv).
                 .rates = {.memory_bytes_per_second = 4.25e12, .launch_seconds = 2.5e-6},
                 // Two H100s (bench/results/overlap-h100-x2.csv, docs/ops/collectives.md): with 16 and 32
                 // units a dispatch gains less in prompts and as much in decoding.
                 .posted = {.least_rows = 32, .dispatch_units = 24, .half_step_units = 8}}},
     // Plain CUDA, for GPUs that have no row of their own. Machine code for 8.x, 10.x and 12.x; the driver
     // makes that of others of the PTX. Shared memory is that of 8.6, 8.9 and 12.0: 8.0 and 9.0 have more.
     {.name = "sm80",
      .least = {8, 0},
      .most = kAnyLater,
      .gpus = "A100, RTX 3090, RTX 4090, L40S, B200, RTX 5090",
      .compiler_flags = "-gencode=arch=compute_80,code=[compute_80,sm_80,sm_86,sm_89,sm_100,sm_120] "
                        "-Xfatbin=-compress-all",
      .traits = {.architecture = "sm80",
                 .activation_type = ElementType::kBf16,
                 .shares_host_memory = false,
                 .queues = true,
                 .released_only = true,
                 .max_replayed_rows = kMaxGraphRows,
                 .overhead_bytes = std::int64_t{1} << 30,
                 .num_units = 128,  // of an RTX 4090
                 .shared_bytes_per_block = 99 << 10,
                 .l2_bytes = 72 << 20,
                 // What a copy reaches there by its data sheet, less a tenth; not measured.
                 .rates = {.memory_bytes_per_second = 0.9e12, .launch_seconds = 2.5e-6},
                 .posted = {.least_rows = 32, .dispatch_units = 24, .half_step_units = 8}}}}};  // Hopper's

}  // namespace

std::span<const GpuArchitecture> gpu_architectures() { return kArchitectures; }

}  // namespace baleen
