#include "ops/matmul/matmul.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {
namespace {

// Half of a second-level cache of 1 MB (and all of one of 512 KB): the other half passes weights through.
constexpr std::int64_t kPackedBlockBytes = 512 << 10;
// A multiple of the kernel's six rows; below, unpacking is repeated too often to hide.
constexpr std::int64_t kMinBlockRows = 24;
constexpr std::int64_t kMaxBlockRows = 96;
constexpr std::int64_t kItemsPerThread = 6;

}  // namespace

MatmulPartition::MatmulPartition(std::int64_t num_rows, std::int64_t num_columns, std::int64_t num_inputs,
                                 int num_threads) {
  const std::int64_t fitting = kPackedBlockBytes / (num_inputs * 4) / 6 * 6;
  rows_per_item = std::min(num_rows, std::clamp(fitting, kMinBlockRows, kMaxBlockRows));
  num_row_blocks = rows_per_item == 0 ? 0 : (num_rows + rows_per_item - 1) / rows_per_item;
  // Columns are cut as finely as balance needs when there is one row block, and less when rows give items of their own.
  const std::int64_t wanted = std::max<std::int64_t>(1, kItemsPerThread * num_threads / std::max<std::int64_t>(1, num_row_blocks));
  columns_per_item = std::max<std::int64_t>(8, (num_columns + wanted - 1) / wanted / 8 * 8);
  num_column_blocks = (num_columns + columns_per_item - 1) / columns_per_item;
}

void matmul(std::span<const MatmulProduct> products, ConstActivations<2> x, ActivationRounding rounding,
            CpuContext& context) {
  const std::int64_t num_rows = x.extent(0);
  const std::int64_t num_inputs = x.extent(1);
  if (num_rows == 0 || products.empty()) return;
  const WeightFormat format = products.front().weight->format;
  for (const MatmulProduct& product : products) {
    BALEEN_CHECK(product.weight->format == format);
    BALEEN_CHECK_EQ(product.weight->cols, num_inputs);
    BALEEN_CHECK_EQ(product.weight->rows, product.y.extent(1));
    BALEEN_CHECK_EQ(num_rows, product.y.extent(0));
  }
  if (context.kernels == Kernels::kReference) {
    for (const MatmulProduct& product : products) {
      matmul_ref(*product.weight, x, rounding, product.round_bf16, product.y);
    }
    return;
  }
  const ScratchScope scope(context.scratch);
  auto* packed = context.scratch.allocate<float>(num_rows * num_inputs);
  const auto pack = [&](std::int64_t row, int) {
    pack_activations(x.row(row), format, rounding, packed + row * num_inputs);
  };
  constexpr std::int64_t kSerialRows = 2;  // packing a row costs about what handing it to another thread does
  if (num_rows <= kSerialRows) {
    for (std::int64_t row = 0; row < num_rows; ++row) pack(row, 0);
  } else {
    context.pool.parallel_for(num_rows, pack);
  }

  constexpr std::size_t kMaxProducts = 8;
  BALEEN_CHECK_LE(products.size(), kMaxProducts);
  std::int64_t first_item[kMaxProducts + 1] = {0};
  for (std::size_t i = 0; i < products.size(); ++i) {
    const MatmulPartition partition(num_rows, products[i].weight->rows, num_inputs, context.pool.num_threads());
    first_item[i + 1] = first_item[i] + partition.num_items();
  }
  context.pool.parallel_for(first_item[products.size()], [&](std::int64_t item, int) {
    std::size_t which = 0;
    while (item >= first_item[which + 1]) ++which;
    const MatmulProduct& product = products[which];
    const MatmulPartition partition(num_rows, product.weight->rows, num_inputs, context.pool.num_threads());
    // Column ranges outside: neighbouring items read the same weights, from the cache the second time.
    const std::int64_t local = item - first_item[which];
    const std::int64_t row = local % partition.num_row_blocks * partition.rows_per_item;
    const std::int64_t column = local / partition.num_row_blocks * partition.columns_per_item;
    matmul_tile({.weight = product.weight,
                 .n_begin = column,
                 .n_end = std::min(column + partition.columns_per_item, product.weight->rows),
                 .packed = packed + row * num_inputs,
                 .num_rows = std::min(partition.rows_per_item, num_rows - row),
                 .y = product.y.data() + row * product.y.stride(0),
                 .y_stride = product.y.stride(0),
                 .round_bf16 = product.round_bf16});
  });
}

std::int64_t matmul_scratch_bytes(std::int64_t num_rows, std::int64_t num_inputs) {
  return Arena::bytes_for<float>(num_rows * num_inputs);
}

OpCost matmul_cost(const WeightMatrix& weight, std::int64_t num_rows) {
  OpCost cost;
  if (num_rows == 0) return cost;
  cost.add_flops(weight.math_format(),
                 2.0 * static_cast<double>(num_rows) * static_cast<double>(weight.rows) * static_cast<double>(weight.cols));
  cost.read_bytes = weight.total_bytes() + 4.0 * static_cast<double>(num_rows * weight.cols);
  cost.write_bytes = 4.0 * static_cast<double>(num_rows * weight.rows);
  return cost;
}

}  // namespace baleen
