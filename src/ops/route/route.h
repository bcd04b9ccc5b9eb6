/// Router: which experts a token has, and with what weight.             (source: forward pass 6.1)
///
///     score = sqrt(softplus(logit)) | sigmoid(logit) | softmax(logits)
///     ids   = hash_table[token]                                      (hash layers), or
///             the num_selected largest of score + bias, lower id first on ties, optionally only within the
///             num_groups_kept best of num_groups groups (by the sum of a group's two largest score + bias)
///     w     = score[ids];  divided by their sum + sum_eps if `normalise`;  times `scale`
///
/// Weights always come from the scores without bias. softplus is linear above 20. All float32. A NaN score
/// counts as the lowest of all when experts are chosen; the weights then are NaN too.
#pragma once

#include <cstdint>
#include <span>

#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

enum class RouteScoring : std::uint8_t { kSqrtSoftplus, kSigmoid, kSoftmax };

struct RouteArgs {
  ConstActivations<2> logits;  ///< [T, E]; the kept groups hold at least k experts
  RouteScoring scoring = RouteScoring::kSqrtSoftplus;
  bool normalise = true;
  float scale = 1.0F;
  float sum_eps = 0.0F;                      ///< added to the sum that `normalise` divides by
  std::span<const float> bias{};             ///< [E], or empty; selection only
  View<const std::int32_t, 2> hash_table{};  ///< [V, k] expert ids, or empty
  std::span<const TokenId> tokens{};         ///< [T], used with hash_table
  /// Where the rows begin in the step's batch, which knows a device's padding rows.
  std::int64_t first_row = 0;
  int num_groups = 1;  ///< divides E
  int num_groups_kept = 1;
  View<std::int32_t, 2>
      ids;  ///< out [T, k], best first; hash order with a table. -1 for padding rows of a device batch
  Activations<2> weights;          ///< out [T, k]
  std::span<std::int64_t> load{};  ///< [E], or empty: each entry grows by the rows that go to its expert
  /// Null, or set to 1 as soon as the logits are there: on devices, for kernels that run beside this one.
  std::int32_t* routed = nullptr;
};

void route_ref(const RouteArgs& args);
void route_cpu(const RouteArgs& args, CpuContext& context);
[[nodiscard]] OpCost route_cost(const RouteArgs& args);
[[nodiscard]] OpCost route_backward_cost(const RouteArgs& args);
[[nodiscard]] std::int64_t route_scratch_bytes(std::int64_t num_experts, int num_threads);

namespace ops {

struct Route {
  using Args = RouteArgs;
  static constexpr std::string_view kName = "route";
  [[nodiscard]] static OpCost cost(const RouteArgs& args) { return route_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const RouteArgs& args) { return route_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const RouteArgs& args);
  static void accesses(const RouteArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<Route>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
