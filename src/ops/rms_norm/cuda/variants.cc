// The variants of rms_norm, best first.

#include <array>
#include <optional>

#include "ops/rms_norm/cuda/rms_norm.h"

namespace baleen::BALEEN_ARCH {
namespace {

std::optional<Reason> why_not_one_pass(const RmsNormArgs& norm, const RopeArgs& rotation,
                                       const DeviceTraits& /*traits*/) {
  if (!norm.weight.empty()) return "norms of heads have no weight";
  if (norm.y_fp8) return "writes no FP8 rows";
  if (rotation.x.address() != norm.y.address()) return "rotates what it has normalised";
  return std::nullopt;
}

}  // namespace

std::span<const CudaVariant<ops::RmsNorm>> rms_norm_variants() {
  static constexpr std::array<CudaVariant<ops::RmsNorm>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME, .run = rms_norm}}};
  return kVariants;
}

std::span<const CudaVariant<ops::RmsNorm, ops::Rope>> rms_norm_rope_variants() {
  static constexpr std::array<CudaVariant<ops::RmsNorm, ops::Rope>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/one_pass", .run = rms_norm_rope, .why_not = why_not_one_pass}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
