#include "ops/matmul/training_products.h"

#include "base/check.h"
#include "numeric/row_rounding.h"
#include "ops/operation/row_blocks.h"

namespace baleen {

void matmul_training(std::span<const MatmulProduct> products, Operands operands, CpuContext& context) {
  for (const MatmulProduct& product : products) {
    const WeightMatrix& weight = *product.weight;
    BALEEN_CHECK(weight.format == WeightFormat::kF32);
    const std::int64_t num_rows = product.x.extent(0);
    dense_product<float>({.m = num_rows,
                          .n = weight.rows,
                          .k = weight.cols,
                          .a = product.x.data(),
                          .a_stride = product.x.stride(0),
                          .b = reinterpret_cast<const float*>(weight.data),
                          .b_stride = weight.cols,
                          .b_transposed = true,
                          .c = product.y.data(),
                          .c_stride = product.y.stride(0),
                          .operands = operands},
                         context.pool);
    if (!product.round_bf16) continue;
    for_row_blocks(context.pool, num_rows, weight.rows, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) row_rounding::to_bf16(product.y.row(row));
    });
  }
}

}  // namespace baleen
