#include "ops/matmul/matmul.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {
namespace {

// The rows of a prompt come in blocks of 128, and neighbouring items read the same weights: a quarter of a
// second-level cache of 1 MB holds an item's. (Counted as one byte a weight; BF16 then takes half of it.)
constexpr std::int64_t kItemWeights = 256 << 10;
constexpr std::int64_t kItemsPerThread = 6;
constexpr std::int64_t kColumnsTogether = 16;  // most that a kernel takes together where there are few rows
constexpr std::int64_t kMaxPlannedProducts = 64;  // of one group, for the scratch estimate

}  // namespace

MatmulPartition::MatmulPartition(std::int64_t num_rows, std::int64_t num_columns, std::int64_t num_inputs,
                                 int num_threads) {
  rows_per_item = std::min(num_rows, kMaxBlockRows);
  num_row_blocks = rows_per_item == 0 ? 0 : (num_rows + rows_per_item - 1) / rows_per_item;
  const std::int64_t wanted_items =
      std::max<std::int64_t>(1, kItemsPerThread * num_threads / std::max<std::int64_t>(1, num_row_blocks));
  const std::int64_t balanced = (num_columns + wanted_items - 1) / wanted_items;
  const std::int64_t fitting =
      num_rows == 1 ? balanced : std::max<std::int64_t>(32, kItemWeights / num_inputs);
  columns_per_item =
      std::max(kColumnsTogether, std::min(balanced, fitting) / kColumnsTogether * kColumnsTogether);
  num_column_blocks = (num_columns + columns_per_item - 1) / columns_per_item;
}

namespace {

void check(const MatmulProduct& product) {
  BALEEN_CHECK_EQ(product.weight->cols, product.x.extent(1));
  BALEEN_CHECK_EQ(product.weight->rows, product.y.extent(1));
  BALEEN_CHECK_EQ(product.x.extent(0), product.y.extent(0));
}

/// Where a product's packed rows are, and which items of the parallel loop are its own.
struct Planned {
  const MatmulProduct* product = nullptr;
  float* packed = nullptr;
  bool packs = false;  ///< false: an earlier product of the group packs the same rows
  std::int64_t first_item = 0;
};

bool same_packing(const MatmulProduct& a, const MatmulProduct& b) {
  return a.x.data() == b.x.data() && a.x.extents() == b.x.extents() && a.x.stride(0) == b.x.stride(0) &&
         a.weight->format == b.weight->format && a.rounding == b.rounding;
}

void pack_rows(const Planned& planned, std::int64_t begin, std::int64_t end) {
  const MatmulProduct& product = *planned.product;
  for (std::int64_t row = begin; row < end; ++row) {
    pack_activations(product.x.row(row), product.weight->format, product.rounding,
                     planned.packed + row * product.weight->cols);
  }
}

MatmulPartition partition_of(const MatmulProduct& product, int num_threads) {
  return {product.x.extent(0), product.weight->rows, product.weight->cols, num_threads};
}

void run_item(const Planned& planned, std::int64_t item, int num_threads) {
  const MatmulProduct& product = *planned.product;
  const MatmulPartition partition = partition_of(product, num_threads);
  // Column ranges outside: neighbouring items read the same weights, from the cache the second time.
  const std::int64_t row = item % partition.num_row_blocks * partition.rows_per_item;
  const std::int64_t column = item / partition.num_row_blocks * partition.columns_per_item;
  matmul_tile({.weight = product.weight,
               .n_begin = column,
               .n_end = std::min(column + partition.columns_per_item, product.weight->rows),
               .rounding = product.rounding,
               .packed = planned.packed + row * product.weight->cols,
               .num_rows = std::min(partition.rows_per_item, product.x.extent(0) - row),
               .y = product.y.data() + row * product.y.stride(0),
               .y_stride = product.y.stride(0),
               .round_bf16 = product.round_bf16});
}

}  // namespace

void matmul(std::span<const MatmulProduct> products, CpuContext& context) {
  const ScratchScope scope(context.scratch);
  const auto num_products = static_cast<std::int64_t>(products.size());
  auto* planned = context.scratch.allocate<Planned>(num_products);
  const int num_threads = context.pool.num_threads();
  std::int64_t num_items = 0;
  for (std::int64_t i = 0; i < num_products; ++i) {
    const MatmulProduct& product = products[static_cast<std::size_t>(i)];
    check(product);
    planned[i] = {.product = &product, .first_item = num_items};
    num_items += partition_of(product, num_threads).num_items();
    for (std::int64_t j = 0; j < i && planned[i].packed == nullptr; ++j) {
      if (same_packing(*planned[j].product, product)) planned[i].packed = planned[j].packed;
    }
    if (planned[i].packed == nullptr) {
      planned[i].packed = context.scratch.allocate<float>(product.x.extent(0) * product.weight->cols);
      planned[i].packs = true;
    }
  }
  constexpr std::int64_t kSerialRows = 2;  // packing a row costs about what handing it to another thread does
  constexpr std::int64_t kRowsPerItem = 4;
  for (std::int64_t i = 0; i < num_products; ++i) {
    if (!planned[i].packs) continue;
    const std::int64_t num_rows = planned[i].product->x.extent(0);
    if (num_rows <= kSerialRows) {
      pack_rows(planned[i], 0, num_rows);
    } else {
      context.pool.parallel_for((num_rows + kRowsPerItem - 1) / kRowsPerItem, [&](std::int64_t item, int) {
        pack_rows(planned[i], item * kRowsPerItem, std::min(num_rows, (item + 1) * kRowsPerItem));
      });
    }
  }
  context.pool.parallel_for(num_items, [&](std::int64_t item, int) {
    std::int64_t which = num_products - 1;
    while (planned[which].first_item > item) --which;
    run_item(planned[which], item - planned[which].first_item, num_threads);
  });
}

void matmul_ref(std::span<const MatmulProduct> products) {
  for (const MatmulProduct& product : products) {
    check(product);
    matmul_ref(*product.weight, product.x, product.rounding, product.round_bf16, product.y);
  }
}

std::int64_t matmul_scratch_bytes(std::int64_t num_rows, std::int64_t num_inputs) {
  return Arena::bytes_for<float>(num_rows * num_inputs) + Arena::bytes_for<Planned>(kMaxPlannedProducts);
}

MathFormat product_format(WeightFormat format, ActivationRounding rounding) {
  switch (format) {
    case WeightFormat::kF32:
      return MathFormat::kF32;
    case WeightFormat::kBF16:
      return MathFormat::kBF16;
    case WeightFormat::kFp8:
    case WeightFormat::kFp8x32:
    case WeightFormat::kFp4:
      return fp8_group(rounding) > 0 ? MathFormat::kFp8 : MathFormat::kBF16;
    case WeightFormat::kNvfp4:
    case WeightFormat::kQ8:
      return MathFormat::kBF16;
    case WeightFormat::kInt8:
      return MathFormat::kFp8;  // operands of as many bits
  }
  return MathFormat::kF32;
}

OpCost matmul_cost(const WeightMatrix& weight, double num_rows, ActivationRounding rounding) {
  OpCost cost;
  cost.add_flops(product_format(weight.format, rounding),
                 2 * num_rows * static_cast<double>(weight.rows) * static_cast<double>(weight.cols));
  cost.read_weights(weight.stored_bytes());
  return cost;
}

OpCost matmul_backward_cost(const WeightMatrix& weight, double num_rows, ActivationRounding rounding,
                            bool with_input) {
  const OpCost forward = matmul_cost(weight, num_rows, rounding);
  OpCost cost;
  cost.add_flops(product_format(weight.format, rounding), (with_input ? 2 : 1) * forward.matrix_flops());
  if (with_input) cost.read_weights(forward.weight_bytes);
  cost.accumulate_gradients(static_cast<double>(weight.rows) * static_cast<double>(weight.cols));
  return cost;
}

}  // namespace baleen
