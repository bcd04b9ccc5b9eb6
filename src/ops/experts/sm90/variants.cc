// The variants of experts on Hopper.

#include <array>

#include "ops/experts/cuda/experts_dequantised.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/cuda/stated_time.h"
#include "ops/experts/sm90/expert_time.h"
#include "ops/experts/sm90/experts.h"
#include "ops/experts/sm90/groups_few.h"

namespace baleen::sm90 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return experts_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                               shape.moe_intermediate_size, shape.n_routed_experts, shape.activation_group);
}

template <auto WhyNot>
auto why_not(const ExpertsArgs& args, const DeviceTraits& /*traits*/) -> decltype(WhyNot(args)) {
  return WhyNot(args);
}

std::optional<Reason> why_not_few_groups_there(const ExpertsArgs& args, const DeviceTraits& traits) {
  return why_not_few_groups(args, static_cast<int>(traits.num_units));
}

}  // namespace

std::span<const CudaVariant<ops::Experts>> experts_variants() {
  static constexpr std::array<CudaVariant<ops::Experts>, 10> kVariants{
      {{.name = "sm90/bf16",
        .run = experts_bf16,
        .why_not = why_not<why_not_bf16>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/nvfp4",
        .run = experts_nvfp4,
        .why_not = why_not<why_not_nvfp4>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/groups_of_32",
        .run = experts_groups_of_32,
        .why_not = why_not<why_not_groups_of_32>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/few_groups_of_32",
        .run = experts_few_groups,
        .why_not = why_not_few_groups_there,
        .predict = few_groups_seconds,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/four_tokens",
        .run = experts_four_tokens,
        .why_not = why_not<why_not_four_tokens>,
        .predict = four_tokens_seconds,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/few_tokens",
        .run = experts_few_tokens,
        .why_not = why_not<why_not_few_tokens>,
        .predict = few_tokens_seconds,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/many_tokens",
        .run = experts_many_tokens,
        .why_not = why_not<why_not_many_tokens>,
        .predict = many_tokens_seconds,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/stated_few",
        .run = experts_stated_few,
        .why_not = why_not<why_not_in_stated_order>,
        .predict = stated_seconds<kFewStatedTile>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/stated_many",
        .run = experts_stated_many,
        .why_not = why_not<why_not_in_stated_order>,
        .predict = stated_seconds<kManyStatedTile>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/stated_groups_of_32",
        .run = experts_stated_groups,
        .why_not = why_not<why_not_stated_groups>,
        .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm90
