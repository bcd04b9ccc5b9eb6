// The variants of hc_pre on Hopper, best first.

#include <array>
#include <optional>

#include "ops/hc_pre/sm90/hc_pre.h"

namespace baleen::sm90 {
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
      {{.name = "sm90", .run = hc_pre, .why_not = why_not, .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

std::span<const CudaVariant<ops::HcPre, ops::RmsNorm>> hc_pre_norm_variants() {
  static constexpr std::array<CudaVariant<ops::HcPre, ops::RmsNorm>, 1> kVariants{
      {{.name = "sm90/one_pass",
        .run = hc_pre_norm,
        .why_not = why_not_one_pass,
        .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm90
