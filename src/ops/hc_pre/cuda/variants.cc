// The variants of hc_pre, best first.

#include <array>
#include <optional>

#include "ops/hc_pre/cuda/hc_pre.h"

namespace baleen::BALEEN_ARCH {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return hc_pre_scratch_bytes(shape.max_rows, shape.hidden_size);
}

std::optional<Reason> why_not(const HcPreArgs& args, const DeviceTraits& /*traits*/) {
  if (!args.products.empty()) return "keeps no products";
  return std::nullopt;
}

std::optional<Reason> why_not_one_pass(const HcPreArgs& pre, const RmsNormArgs& norm,
                                       const DeviceTraits& traits) {
  if (const auto why = why_not(pre, traits)) return why;
  if (norm.x.address() != pre.u.address()) return "normalises the vector that it makes";
  return std::nullopt;
}

}  // namespace

std::span<const CudaVariant<ops::HcPre>> hc_pre_variants() {
  static constexpr std::array<CudaVariant<ops::HcPre>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = hc_pre, .why_not = why_not, .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

std::span<const CudaVariant<ops::HcPre, ops::RmsNorm>> hc_pre_norm_variants() {
  static constexpr std::array<CudaVariant<ops::HcPre, ops::RmsNorm>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/one_pass",
        .run = hc_pre_norm,
        .why_not = why_not_one_pass,
        .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
