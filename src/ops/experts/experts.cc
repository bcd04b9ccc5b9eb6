#include "ops/experts/experts.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return experts_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                               shape.moe_intermediate_size, shape.n_routed_experts, traits.num_units);
}

}  // namespace

CallShape Experts::shape(const ExpertsArgs& args) {
  // Dispatch, first products, SwiGLU, second product, combination; of the shared expert the three in the middle.
  constexpr int kRoutedKernels = 5, kSharedKernels = 3;
  const bool shares = args.shared != nullptr;
  return {.num_rows = args.x.extent(0),
          .detail = fmt::format("{} of {} experts{}", args.ids.extent(1), args.routed.size(),
                                shares ? ", shared" : ""),
          .num_kernels = kRoutedKernels + (shares ? kSharedKernels : 0)};
}

void Experts::check(const ExpertsArgs& args) {
  BALEEN_CHECK(args.x.data() != args.out.data() || args.x.empty());
  BALEEN_CHECK_EQ(args.x.extent(0), args.ids.extent(0));
}

std::span<const CpuVariant<Experts>> Experts::cpu_variants() {
  static constexpr std::array<CpuVariant<Experts>, 2> kVariants{
      {{.name = kSimdVariant, .run = experts_cpu, .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant,
        .run = [](const ExpertsArgs& args, CpuContext& /*context*/) { experts_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
