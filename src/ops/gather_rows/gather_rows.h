/// Copies rows from one array to another: to[pairs[i].to] = from[pairs[i].from]. What a step hands to the
/// head, to a draft head and to the next step. No row is written twice; the arrays do not overlap.
#pragma once

#include <cstdint>
#include <span>

#include "ops/operation/variant.h"
#include "tensor/activations.h"

namespace baleen {

struct RowPair {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

struct GatherRowsArgs {
  ConstActivations<2> from;        ///< dense
  std::span<const RowPair> pairs;  ///< lie in host memory on every device; read before the call returns
  Activations<2> to;               ///< dense, as wide as `from` and of its type
};

void gather_rows_ref(const GatherRowsArgs& args);
[[nodiscard]] OpCost gather_rows_cost(const GatherRowsArgs& args);
[[nodiscard]] OpCost gather_rows_backward_cost(const GatherRowsArgs& args);

namespace ops {

struct GatherRows {
  using Args = GatherRowsArgs;
  static constexpr std::string_view kName = "gather_rows";
  [[nodiscard]] static OpCost cost(const GatherRowsArgs& args) { return gather_rows_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const GatherRowsArgs& args) {
    return gather_rows_backward_cost(args);
  }
  [[nodiscard]] static CallShape shape(const GatherRowsArgs& args);
  static void accesses(const GatherRowsArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<GatherRows>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
