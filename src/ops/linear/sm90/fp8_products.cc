#include "ops/linear/sm90/fp8_products.h"

#include "base/check.h"
#include "cuda/tensor_map.h"

namespace baleen::sm90 {
namespace {

CUtensorMap slices_map(const void* codes, std::int64_t num_rows, std::int64_t num_inputs, int box_rows,
                       int box_slices) {
  return make_tensor_map(codes, num_inputs / kSliceInputs, kSliceInputs, num_rows, kSliceInputs, num_inputs,
                         box_rows, kSliceInputs, TileSwizzle::k128B, box_slices);
}

}  // namespace

Fp8Products describe_products(std::span<const LinearOutput> outputs, const Fp8Rows& x,
                              std::int64_t num_tokens, const Fp8Boxes& boxes) {
  BALEEN_CHECK(!outputs.empty());
  BALEEN_CHECK_LE(outputs.size(), static_cast<std::size_t>(kMaxProducts));
  const std::int64_t num_inputs = outputs.front().weight->cols;
  Fp8Products all{};
  all.tokens = slices_map(x.codes, num_tokens, num_inputs, boxes.tokens, boxes.token_slices);
  all.token_scales = x.scales;
  all.scale_stride = x.scale_stride;
  all.num_products = static_cast<std::int32_t>(outputs.size());
  all.num_tokens = static_cast<std::int32_t>(num_tokens);
  all.num_slices = static_cast<std::int32_t>(num_inputs / kSliceInputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const WeightMatrix& weight = *outputs[i].weight;
    BALEEN_CHECK_EQ(weight.cols, num_inputs);
    all.weights[i] = slices_map(weight.data, weight.rows, num_inputs, boxes.rows, boxes.row_slices);
    all.products[i] = {.weight_scales = weight.block_scales,
                       .y = outputs[i].y.address(),
                       .y_stride = outputs[i].y.stride(0),
                       .num_outputs = static_cast<std::int32_t>(weight.rows),
                       .first_tile = all.num_tiles,
                       .y_f32 = outputs[i].keep_f32};
    all.num_tiles += static_cast<std::int32_t>((weight.rows + boxes.rows - 1) / boxes.rows);
  }
  return all;
}

}  // namespace baleen::sm90
