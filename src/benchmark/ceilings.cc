#include "benchmark/ceilings.h"

#include <fmt/format.h>

#include "device/make_device.h"
#include "hardware/instruction_sets.h"
#include "hardware/machine_limits.h"

namespace baleen {

Ceilings measure_ceilings(ModelEngine& engine) {
  if (const DeviceTraits& traits = engine.device().traits(); !traits.shares_host_memory) {
    const DeviceCeilings device = measure_device_ceilings(engine.options().device);
    std::string machine = fmt::format("{}: {:.0f} GB/s copied, {:.0f} TFLOP/s BF16", device.name,
                                      1e-9 * device.bytes_per_second, 1e-12 * device.bf16_flops_per_second);
    if (!traits.has_fp8_units)
      return {machine, "copy", device.bytes_per_second, "BF16", device.bf16_flops_per_second};
    machine += fmt::format(", {:.0f} TFLOP/s FP8", 1e-12 * device.fp8_flops_per_second);
    return {machine, "copy", device.bytes_per_second, "FP8", device.fp8_flops_per_second};
  }
  ThreadPool pool(engine.options().num_threads);
  const MachineLimits limits = measure_machine_limits(pool);
  return {fmt::format("{}, {} threads, {}: {:.1f} GB/s read, {:.1f} GFLOP/s multiply-add", processor_name(),
                      engine.options().num_threads, instruction_set_in_use(),
                      1e-9 * limits.read_bytes_per_second, 1e-9 * limits.fma_flops_per_second),
          "read", limits.read_bytes_per_second, "FMA", limits.fma_flops_per_second};
}

}  // namespace baleen
