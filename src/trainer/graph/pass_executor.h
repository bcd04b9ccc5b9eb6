/// What runs the operations of a training pass of floats.
#pragma once

#include "ops/matmul/weight_matrix.h"
#include "ops/operation/variant_executor.h"

namespace baleen {

class PassRecord;

struct PassExecutors {
  Executor& exact;     ///< products in float32: of routers, mixings and compressors; and what has no product
  Executor& products;  ///< all other products, in the pass's arithmetic
  PassRecord* record = nullptr;  ///< where the pass is written down instead (pass_record.h)
};

/// This machine's: the variants that train.
class PassExecutor {
 public:
  /// `pool` outlives it. `bf16_products`: of operands rounded to BF16.
  PassExecutor(ThreadPool& pool, bool bf16_products);

  [[nodiscard]] PassExecutors executors() { return {exact_, bf16_products_ ? bf16_ : exact_}; }

 private:
  Arena scratch_;  ///< training takes none
  CpuContext context_;
  VariantExecutor<CpuContext> exact_, bf16_;
  bool bf16_products_;
};

/// [out, in] of a training's weights.
[[nodiscard]] inline WeightMatrix float_matrix(std::int64_t out, std::int64_t in, const float* values) {
  return {.format = WeightFormat::kF32,
          .rows = out,
          .cols = in,
          .data = reinterpret_cast<const std::byte*>(values)};
}

}  // namespace baleen
