// The variants of hc_post, best first.

#include <array>
#include <optional>

#include "ops/hc_post/cuda/hc_post.h"
#include "ops/hc_pre/cuda/hc_pre.h"

namespace baleen::BALEEN_ARCH {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return hc_pre_scratch_bytes(shape.max_rows, shape.hidden_size);
}

std::optional<Reason> why_not_one_pass(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm,
                                       const DeviceTraits& /*traits*/) {
  if (post.streams.address() != pre.streams.address()) return "enters the streams that it leaves";
  if (norm.x.address() != pre.u.address()) return "normalises the vector that it makes";
  return std::nullopt;
}

}  // namespace

std::span<const CudaVariant<ops::HcPost>> hc_post_variants() {
  static constexpr std::array<CudaVariant<ops::HcPost>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME,
        .run = hc_post,
        .why_not = [](const HcPostArgs& args, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (!args.before.empty()) return "works in place";
          return std::nullopt;
        }}}};
  return kVariants;
}

std::span<const CudaVariant<ops::HcPost, ops::HcPre, ops::RmsNorm>> hc_post_pre_norm_variants() {
  static constexpr std::array<CudaVariant<ops::HcPost, ops::HcPre, ops::RmsNorm>, 1> kVariants{
      {{.name = BALEEN_ARCH_NAME "/one_pass",
        .run = hc_post_pre_norm,
        .why_not = why_not_one_pass,
        .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
