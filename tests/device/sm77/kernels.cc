#include <array>

#include "ops/operation/kernel_time.h"
#include "tests/device/sm77/sm77.h"
#include "tests/ops/scale/scale.h"

namespace baleen::sm77 {
namespace {

// ops/scale/sm77/scale.cu

/// In place of a kernel on `context.stream`.
void scale(const ScaleArgs& args, CudaContext& /*context*/) { scale_ref(args); }

std::span<const CudaVariant<ops::Scale>> scale_variants() {
  static constexpr std::array<CudaVariant<ops::Scale>, 1> kVariants{
      {{.name = "sm77/rows",
        .run = scale,
        .why_not = [](const ScaleArgs& args, const DeviceTraits& traits) -> std::optional<Reason> {
          if (args.x.extent(1) * 4 > traits.shared_bytes_per_block) return "keeps a row in shared memory";
          return std::nullopt;
        },
        .predict =
            [](const ScaleArgs& args, const DeviceTraits& traits) {
              return seconds_of({.bytes = ops::Scale::cost(args).total_bytes()}, traits.rates);
            },
        .scratch_bytes = [](const StepShape& shape,
                            const DeviceTraits& /*traits*/) { return shape.max_rows * shape.hidden_size; }}}};
  return kVariants;
}

// ops/sm77/variants.cc

VariantTable<CudaContext> variants() {
  VariantTable<CudaContext> table;
  table.add(scale_variants());
  return table;
}

// cuda/sm77/gpu_limits.cu

GpuLimits measure_gpu_limits(CUstream_st* /*stream*/, int num_sms) {
  return {.copy_bytes_per_second = 1e11 * num_sms, .bf16_flops_per_second = 1e12 * num_sms};
}

}  // namespace

// device/sm77/kernels.cc

GpuKernels kernels() {
  return {.variants = variants, .variants_over_nccl = variants, .measure_limits = measure_gpu_limits};
}

}  // namespace baleen::sm77
