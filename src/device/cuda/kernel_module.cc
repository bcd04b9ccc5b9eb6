#include "device/cuda/kernel_module.h"

#include "ops/operation/variant_choice.h"

namespace baleen {

std::int64_t KernelModule::scratch_bytes(const StepShape& shape, const DeviceTraits& traits) const {
  return kernels_.variants().scratch_bytes(shape, traits);
}

std::vector<VariantVerdict> KernelModule::verdicts(const DeviceTraits& traits,
                                                   const std::vector<ForcedVariant>& forced,
                                                   const OperationSequence& sequence,
                                                   const void* const* args) const {
  return baleen::verdicts(VariantChoice(kernels_.variants(), traits, forced), sequence, args);
}

}  // namespace baleen
