// The variants of experts before Hopper.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "ops/experts/cuda/experts_dequantised.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/cuda/stated_time.h"
#include "ops/experts/sm80/experts.h"
#include "ops/matmul/sm80/product_list.h"

namespace baleen::sm80 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  return experts_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                               shape.moe_intermediate_size, shape.n_routed_experts, shape.activation_group);
}

WeightFormat format_of(const ExpertsArgs& args) { return args.routed[0].w1.format; }

std::optional<Reason> why_not_codes(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  if (const auto why = why_not_stated(args)) return why;
  if (const auto why = why_not_small_groups(args)) return why;
  if (format_of(args) == WeightFormat::kBF16) return "multiplies codes; these weights are BF16";
  if (format_of(args) == WeightFormat::kNvfp4) return "takes scales of 32 inputs; NVFP4 has them of 16";
  return std::nullopt;
}

std::optional<Reason> why_not_bf16(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  if (const auto why = why_not_stated(args)) return why;
  if (format_of(args) != WeightFormat::kBF16) return "takes BF16 weights; these are codes";
  return std::nullopt;
}

std::optional<Reason> why_not_nvfp4(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  if (const auto why = why_not_stated(args)) return why;
  if (const auto why = why_not_small_groups(args)) return why;
  if (format_of(args) != WeightFormat::kNvfp4) return "takes NVFP4 weights; these are others";
  return std::nullopt;
}

std::optional<Reason> why_not_32(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_groups_of_32(args);
}

std::optional<Reason> why_not_stated_32(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_stated_groups(args);
}

std::optional<Reason> why_not_any_order(const ExpertsArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_in_stated_order(args);
}

/// As products of each expert's weights with its tokens, of which all are taken to have as many.
template <auto kSeconds>
double expert_seconds(const ExpertsArgs& args, const DeviceTraits& traits) {
  const ExpertWeights& first = args.routed[0];
  const double weight_bytes = expected_experts_cost(args).weight_bytes;
  const double bytes_of_one = first.w1.stored_bytes() + first.w2.stored_bytes() + first.w3.stored_bytes();
  const double experts = std::max(1.0, weight_bytes / bytes_of_one);
  const double assignments = static_cast<double>(args.x.extent(0) * (args.ids.extent(1) + 1));
  const ListShape shape{.num_tokens = static_cast<std::int64_t>(std::ceil(assignments / experts)),
                        .num_inputs = first.w1.cols,
                        .all_outputs = static_cast<std::int64_t>(3 * experts) * first.w1.rows,
                        .weight_bytes = weight_bytes};
  return kSeconds(shape, traits.num_units, traits.rates);
}

}  // namespace

std::span<const CudaVariant<ops::Experts>> experts_variants() {
  static constexpr std::array<CudaVariant<ops::Experts>, 8> kVariants{
      {{.name = "sm80/bf16", .run = experts_bf16, .why_not = why_not_bf16, .scratch_bytes = scratch_bytes},
       {.name = "sm80/nvfp4", .run = experts_nvfp4, .why_not = why_not_nvfp4, .scratch_bytes = scratch_bytes},
       {.name = "sm80/groups_of_32",
        .run = experts_groups_of_32,
        .why_not = why_not_32,
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/few_tokens",
        .run = experts_few_tokens,
        .why_not = why_not_codes,
        .predict = expert_seconds<few_seconds>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/many_tokens",
        .run = experts_many_tokens,
        .why_not = why_not_codes,
        .predict = expert_seconds<large_seconds>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/stated_few",
        .run = experts_stated_few,
        .why_not = why_not_any_order,
        .predict = stated_seconds<kFewStatedTile>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/stated_many",
        .run = experts_stated_many,
        .why_not = why_not_any_order,
        .predict = stated_seconds<kManyStatedTile>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm80/stated_groups_of_32",
        .run = experts_stated_groups,
        .why_not = why_not_stated_32,
        .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm80
