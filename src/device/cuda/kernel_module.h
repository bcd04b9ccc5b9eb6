/// A module of kernels, as far as it needs neither GPU nor toolkit.
#pragma once

#include <string_view>
#include <vector>

#include "device/cuda/gpu_kernels.h"
#include "device/gpu_module.h"

namespace baleen {

class KernelModule : public GpuModule {
 public:
  explicit KernelModule(const GpuKernels& kernels) : kernels_(kernels) {}

  [[nodiscard]] std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) const override;
  [[nodiscard]] std::vector<VariantVerdict> verdicts(const DeviceTraits& traits,
                                                     const std::vector<ForcedVariant>& forced,
                                                     const OperationSequence& sequence,
                                                     const void* const* args) const override;

 protected:
  [[nodiscard]] const GpuKernels& kernels() const { return kernels_; }

 private:
  GpuKernels kernels_;
};

}  // namespace baleen
