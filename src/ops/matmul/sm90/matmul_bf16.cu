#include "ops/matmul/cuda/matmul_bf16.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "cuda/tensor_map.h"
#include "ops/matmul/sm90/bf16_products.h"
#include "ops/matmul/sm90/bf16_split_few.h"

namespace baleen::sm90 {
namespace {

static_assert(kMaxMatmulBf16Products == bf16_time::kMaxProducts);

constexpr int kBoxBytes = 128;  // of a row of x or y: the span of the swizzle

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace

Bf16Products make_products(const Bf16Work& work, const Bf16Boxes& boxes) {
  constexpr std::int64_t kElementBytes = 2;
  const std::int64_t group_bytes = work.group_stride * kElementBytes;
  BALEEN_CHECK(work.num_inputs % kSliceInputs == 0 && aligned(work.x) && work.row_stride % 8 == 0);
  BALEEN_CHECK(work.num_groups == 1 || group_bytes % kBoxBytes == 0);
  BALEEN_CHECK(!work.outputs.empty() &&
               work.outputs.size() <= static_cast<std::size_t>(kMaxMatmulBf16Products));
  Bf16Products parameters{};
  const std::int64_t x_bytes = (work.num_groups - 1) * group_bytes + work.num_inputs * kElementBytes;
  parameters.x = make_tensor_map(work.x, x_bytes / kBoxBytes, kBoxBytes, work.num_rows, kBoxBytes,
                                 work.row_stride * kElementBytes, boxes.tokens, kBoxBytes, TileSwizzle::k128B,
                                 boxes.token_columns);
  const TileSwizzle weight_swizzle = boxes.weight_bytes == 128 ? TileSwizzle::k128B : TileSwizzle::k64B;
  for (const Bf16Work::Output& output : work.outputs) {
    const WeightMatrix& weight = *output.weight;
    BALEEN_CHECK(weight.format == WeightFormat::kBF16 || is_fp8(weight.format));
    BALEEN_CHECK(weight.format == work.outputs.front().weight->format);
    // Of small blocks four scales are one word.
    BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(weight.scales()) % 4, 0);
    BALEEN_CHECK(aligned(weight.data));
    BALEEN_CHECK_EQ(weight.cols, work.num_inputs);
    BALEEN_CHECK_EQ(output.y.extent(0), work.num_rows);
    BALEEN_CHECK_EQ(output.y.extent(1), weight.rows);
    const std::int64_t y_size = size_of(output.y.element_type());
    const std::int64_t y_row_bytes = output.y.stride(0) * y_size;
    Bf16Products::Product& product = parameters.products[parameters.num_products++];
    product = {
        .weight = make_tensor_map(weight.data, weight.row_bytes() / boxes.weight_bytes, boxes.weight_bytes,
                                  weight.rows, boxes.weight_bytes, weight.row_bytes(), boxes.tile_outputs,
                                  boxes.weight_bytes, weight_swizzle, boxes.weight_columns),
        .scales = weight.scales(),
        .y = output.y.address(),
        .y_stride = output.y.stride(0),
        .num_outputs = static_cast<std::int32_t>(weight.rows),
        .first_tile = parameters.num_tiles,
        .y_is_bf16 = output.y.element_type() == ElementType::kBf16,
        .y_has_map = boxes.stores_boxes && aligned(output.y.address()) && y_row_bytes % 16 == 0 &&
                     weight.rows * y_size % 16 == 0};
    if (product.y_has_map) {
      constexpr int kStagedOutputs = 64;
      product.y_map = make_tensor_map(product.y, work.num_rows, weight.rows * y_size, y_row_bytes,
                                      static_cast<int>(kStagingBytes / (kStagedOutputs * y_size)), kBoxBytes,
                                      TileSwizzle::k128B);
    }
    parameters.num_tiles +=
        static_cast<std::int32_t>((weight.rows + boxes.tile_outputs - 1) / boxes.tile_outputs);
  }
  parameters.tile_outputs = boxes.tile_outputs;
  parameters.num_rows = static_cast<std::int32_t>(work.num_rows);
  parameters.num_slices = static_cast<std::int32_t>(work.num_inputs / kSliceInputs);
  parameters.segment_slices = (parameters.num_slices + work.num_segments - 1) / work.num_segments;
  const std::int64_t all_outputs = work.outputs.front().weight->rows;
  // A tile lies in one group.
  BALEEN_CHECK(work.num_groups == 1 ||
               (work.outputs.size() == 1 && all_outputs % (work.num_groups * boxes.tile_outputs) == 0));
  parameters.group_columns = static_cast<std::int32_t>(group_bytes / kBoxBytes);
  parameters.num_groups = static_cast<std::int32_t>(work.num_groups);
  parameters.group_outputs = work.num_groups == 1 ? std::numeric_limits<std::int32_t>::max()
                                                  : static_cast<std::int32_t>(all_outputs / work.num_groups);
  return parameters;
}

bf16_time::Shape shape_of(const Bf16Work& work) {
  bf16_time::Shape shape{.num_rows = work.num_rows,
                         .num_inputs = work.num_inputs,
                         .num_groups = work.num_groups,
                         .num_segments = work.num_segments,
                         .has_fp8_weights = is_fp8(work.outputs.front().weight->format)};
  for (const Bf16Work::Output& output : work.outputs) shape.add(output.weight->rows);
  return shape;
}

void run_bf16(const Bf16Work& work, CudaContext& context) {
  if (work.num_rows == 0) return;
  const bf16_time::Shape shape = shape_of(work);
  switch (bf16_time::kernel_for(shape, context.num_sms, context.rates)) {
    case bf16_time::Kernel::kTile:
      return bf16_tile(work, context);
    case bf16_time::Kernel::kSplit:
      return (are_few_for_split(work, context.num_sms) ? bf16_split_few : bf16_split)(work, context);
    case bf16_time::Kernel::kStream:
      return shape.has_fp8_weights ? bf16_stream_fp8(work, context) : bf16_stream(work, context);
  }
}

void matmul_bf16(std::span<const MatmulBf16> products, CudaContext& context) {
  BALEEN_CHECK(!products.empty() && products.size() <= static_cast<std::size_t>(kMaxMatmulBf16Products));
  const ConstActivations<2>& x = products.front().x;
  BALEEN_CHECK(x.element_type() == ElementType::kBf16);
  // A weight's segments depend on its own shape, a launch has one kind: two launches where the products
  // differ.
  for (const int num_segments : {1, kMaxSegments}) {
    std::array<Bf16Work::Output, kMaxMatmulBf16Products> outputs;
    std::size_t count = 0;
    for (const MatmulBf16& product : products) {
      BALEEN_CHECK(product.weight->format == WeightFormat::kBF16);
      BALEEN_CHECK(product.x.address() == x.address() && product.x.extents() == x.extents() &&
                   product.x.stride(0) == x.stride(0) && product.x.element_type() == x.element_type());
      if (bf16_time::segments_of(product.weight->rows) == num_segments) {
        outputs[count++] = {product.weight, product.y};
      }
    }
    if (count == 0) continue;
    run_bf16({.x = x.address(),
              .num_rows = x.extent(0),
              .num_inputs = x.extent(1),
              .row_stride = x.stride(0),
              .group_stride = x.stride(0),
              .num_segments = num_segments,
              .outputs = std::span(outputs).first(count)},
             context);
  }
}

void add_matmul_bf16(const MatmulBf16& product, CudaContext& context) {
  BALEEN_CHECK(product.x.element_type() == ElementType::kBf16);
  BALEEN_CHECK(product.weight->format == WeightFormat::kBF16);
  if (product.x.extent(0) == 0) return;
  const Bf16Work::Output output{product.weight, product.y};
  bf16_stream_adding({.x = product.x.address(),
                      .num_rows = product.x.extent(0),
                      .num_inputs = product.x.extent(1),
                      .row_stride = product.x.stride(0),
                      .group_stride = product.x.stride(0),
                      .num_segments = 1,
                      .outputs = {&output, 1}},
                     context);
}

}  // namespace baleen::sm90
