// Products with BF16 activations, by the kernels of lists of products.

#include <array>
#include <limits>

#include "base/check.h"
#include "ops/matmul/cuda/bf16_work.h"
#include "ops/matmul/cuda/matmul_bf16.h"
#include "ops/matmul/sm80/product_list.h"

namespace baleen::sm80 {
namespace {

/// `adds`: to what y holds.
void run(const Bf16Work& work, bool adds, CudaContext& context) {
  constexpr std::int64_t kElementBytes = 2, kSliceInputs = 128;
  if (work.num_rows == 0) return;
  BALEEN_CHECK(!work.outputs.empty());
  BALEEN_CHECK(work.num_inputs % kSliceInputs == 0 && work.row_stride % 8 == 0 && work.group_stride % 8 == 0);
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(work.x) % 16, 0);
  const WeightFormat format = work.outputs.front().weight->format;
  BALEEN_CHECK(format == WeightFormat::kBF16 || is_fp8(format));
  ListShape shape{.num_tokens = work.num_rows, .num_inputs = work.num_inputs, .format = format};
  for (const Bf16Work::Output& output : work.outputs) {
    BALEEN_CHECK_EQ(output.weight->cols, work.num_inputs);
    BALEEN_CHECK_EQ(output.y.extent(0), work.num_rows);
    shape.all_outputs += output.weight->rows;
    shape.weight_bytes += static_cast<double>(output.weight->size_bytes());
  }
  // A tile lies in one group.
  int many_outputs = many_tile_outputs(shape, context.num_sms, context.rates);
  const auto cuts_groups = [&](int tile_outputs) {
    return work.num_groups > 1 && work.outputs.front().weight->rows % (work.num_groups * tile_outputs) != 0;
  };
  if (cuts_groups(many_outputs)) many_outputs = kSmallTileOutputs;
  const bool few = cuts_groups(many_outputs) || few_seconds(shape, context.num_sms, context.rates) <=
                                                    many_seconds(shape, context.num_sms, context.rates);
  ProductList list{.tokens = work.x,
                   .token_bytes = work.row_stride * kElementBytes,
                   .group_bytes = work.group_stride * kElementBytes,
                   .tile_outputs = few ? kFewTileOutputs : many_outputs,
                   .group_outputs = std::numeric_limits<std::int32_t>::max(),
                   .num_tokens = static_cast<std::int32_t>(work.num_rows),
                   .adds = adds,
                   .num_slices = static_cast<std::int32_t>(work.num_inputs / kSliceInputs)};
  if (work.num_groups > 1) {
    const std::int64_t all_outputs = work.outputs.front().weight->rows;
    BALEEN_CHECK(work.outputs.size() == 1 && all_outputs % (work.num_groups * kFewTileOutputs) == 0);
    list.group_outputs = static_cast<std::int32_t>(all_outputs / work.num_groups);
  }
  for (const Bf16Work::Output& output : work.outputs) {
    BALEEN_CHECK(output.weight->format == format);
    BALEEN_CHECK(!adds || output.y.element_type() == ElementType::kF32);
    add_product(list, *output.weight, output.y);
  }
  (few ? multiply_few : multiply_many)(format, false, list, context);
}

/// One weight or several, of one x.
void run(std::span<const MatmulBf16> products, bool adds, CudaContext& context) {
  BALEEN_CHECK(!products.empty() && products.size() <= static_cast<std::size_t>(kMaxMatmulBf16Products));
  const ConstActivations<2>& x = products.front().x;
  BALEEN_CHECK(x.element_type() == ElementType::kBf16);
  std::array<Bf16Work::Output, kMaxMatmulBf16Products> outputs;
  for (std::size_t i = 0; i < products.size(); ++i) {
    BALEEN_CHECK(products[i].weight->format == WeightFormat::kBF16);
    BALEEN_CHECK(products[i].x.address() == x.address() && products[i].x.extents() == x.extents() &&
                 products[i].x.stride(0) == x.stride(0));
    outputs[i] = {products[i].weight, products[i].y};
  }
  run({.x = x.address(),
       .num_rows = x.extent(0),
       .num_inputs = x.extent(1),
       .row_stride = x.stride(0),
       .group_stride = x.stride(0),
       .outputs = std::span(outputs).first(products.size())},
      adds, context);
}

}  // namespace

void run_bf16(const Bf16Work& work, CudaContext& context) { run(work, false, context); }

void matmul_bf16(std::span<const MatmulBf16> products, CudaContext& context) {
  run(products, false, context);
}

void add_matmul_bf16(const MatmulBf16& product, CudaContext& context) { run({&product, 1}, true, context); }

}  // namespace baleen::sm80
