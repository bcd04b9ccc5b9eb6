/// y[t, :] = factor * x[t, :]. The example of docs/adding_an_operation.md; no model has it.
#pragma once

#include <span>

#include "ops/operation/variant.h"
#include "tensor/activations.h"

namespace baleen {

struct ScaleArgs {
  ConstActivations<2> x;  ///< [T, width]
  float factor = 1.0F;
  Activations<2> y;  ///< [T, width]; may be x
};

void scale_ref(const ScaleArgs& args);
/// Takes scratch: as an example.
void scale_by_rows(const ScaleArgs& args, CpuContext& context);

namespace ops {

struct Scale {
  using Args = ScaleArgs;
  static constexpr std::string_view kName = "scale";
  [[nodiscard]] static OpCost cost(const ScaleArgs& args);
  [[nodiscard]] static CallShape shape(const ScaleArgs& args);
  [[nodiscard]] static CallKey key(const ScaleArgs& args);
  static void accesses(const ScaleArgs& args, Accesses& to);
  static void check(const ScaleArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Scale>> cpu_variants();
};

}  // namespace ops
}  // namespace baleen
