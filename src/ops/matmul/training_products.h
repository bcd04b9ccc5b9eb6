/// `matmul` as training computes it: float32 weights by ops/dense_product, in the order of sums that logs and
/// checkpoints of runs have.
#pragma once

#include <optional>
#include <span>

#include "ops/dense_product/dense_product.h"
#include "ops/matmul/matmul.h"
#include "ops/operation/variant.h"

namespace baleen {

/// Products one after the other, each on all threads; takes no scratch. Weights are kF32. `rounding` is not
/// done: who trains in the formats of a release passes x rounded.
void matmul_training(std::span<const MatmulProduct> products, Operands operands, CpuContext& context);

/// Why a variant `training` does not take weights of `format`.
[[nodiscard]] inline std::optional<Reason> why_not_training(WeightFormat format) {
  if (format != WeightFormat::kF32) return kTrainsFloat32;
  return std::nullopt;
}

}  // namespace baleen
