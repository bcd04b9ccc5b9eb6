#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "ops/linear/cuda/fp8_products.h"
#include "ops/linear/cuda/linear.h"
#include "ops/linear/cuda/quantise_rows.h"
#include "ops/matmul/cuda/bf16_work.h"
#include "ops/matmul/cuda/matmul_bf16.h"
#include "ops/operation/run_quickest.h"

namespace baleen::BALEEN_ARCH {
namespace {

static_assert(kMaxProducts <= kMaxMatmulBf16Products);

/// Scales of a block of inputs, of one token after the other, begin on 16 bytes.
std::int64_t scale_stride(std::int64_t num_rows) { return (num_rows + 3) / 4 * 4; }

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

/// What 16-byte accesses and tensor copies want.
void check_output(const LinearOutput& output, std::int64_t num_rows, std::int64_t num_inputs) {
  const WeightMatrix& weight = *output.weight;
  BALEEN_CHECK_EQ(weight.cols, num_inputs);
  BALEEN_CHECK_EQ(output.y.extent(0), num_rows);
  BALEEN_CHECK_EQ(output.y.extent(1), weight.rows);
  BALEEN_CHECK((output.y.element_type() == ElementType::kF32) == output.keep_f32);
  if (!is_fp8(weight.format)) return;
  BALEEN_CHECK_EQ(weight.rows % 8, 0);
  BALEEN_CHECK(aligned(weight.data));
  BALEEN_CHECK(aligned(output.y.address()) && output.y.stride(0) % 8 == 0);
}

/// Outputs of one launch.
class Group {
 public:
  void add(const LinearOutput& output) { outputs_[size_++] = output; }
  [[nodiscard]] std::span<const LinearOutput> outputs() const { return std::span(outputs_).first(size_); }

 private:
  std::array<LinearOutput, kMaxProducts> outputs_;
  std::size_t size_ = 0;
};

void run_plain(std::span<const LinearOutput> outputs, ConstActivations<2> x, CudaContext& context) {
  std::array<MatmulBf16, kMaxProducts> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    products[i] = {.weight = outputs[i].weight, .x = x, .y = outputs[i].y};
  }
  matmul_bf16(std::span(products).first(outputs.size()), context);
}

/// FP8 in blocks of 32: x is rounded to what e4m3 with a scale per 32 holds, which is exact in BF16, as the
/// weights are. Sums then are those of BF16 products.
void run_small_blocks(std::span<const LinearOutput> outputs, ConstActivations<2> x, CudaContext& context) {
  const std::int64_t num_rows = x.extent(0), num_inputs = x.extent(1);
  BALEEN_CHECK(aligned(x.address()) && x.stride(0) % 8 == 0);
  auto* const rounded = context.scratch.allocate<Bf16Bits>(num_rows * num_inputs);
  round_rows(x, rounded, context);
  std::array<Bf16Work::Output, kMaxProducts> products;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    BALEEN_CHECK_EQ(outputs[i].weight->activation_group, kSmallActivationGroup);
    products[i] = {outputs[i].weight, outputs[i].y};
  }
  run_bf16({.x = reinterpret_cast<const std::byte*>(rounded),
            .num_rows = num_rows,
            .num_inputs = num_inputs,
            .row_stride = num_inputs,
            .group_stride = num_inputs,
            .outputs = std::span(products).first(outputs.size())},
           context);
}

using Fp8Kernel = void (*)(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                           CudaContext& context);

void linear_by(Fp8Kernel fp8_products, const LinearArgs& args, CudaContext& context) {
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(args.x.element_type() == ElementType::kBf16);
  BALEEN_CHECK_LE(args.outputs.size(), static_cast<std::size_t>(kMaxProducts));
  const std::int64_t num_rows = args.x.extent(0), num_inputs = args.x.extent(1);
  Group fp8, fp8x32, bf16;
  for (const LinearOutput& output : args.outputs) {
    check_output(output, num_rows, num_inputs);
    const WeightFormat format = output.weight->format;
    BALEEN_CHECK(is_fp8(format) || format == WeightFormat::kBF16);
    (format == WeightFormat::kFp8 ? fp8 : format == WeightFormat::kFp8x32 ? fp8x32 : bf16).add(output);
  }
  if (num_rows == 0) return;
  const ScratchScope scope(context.scratch);
  if (!fp8.outputs().empty()) {
    BALEEN_CHECK_EQ(num_inputs % kSliceInputs, 0);
    for (const LinearOutput& output : fp8.outputs())
      BALEEN_CHECK_EQ(output.weight->activation_group, kActivationGroup);
    Fp8Rows x = args.x_fp8;
    BALEEN_CHECK_EQ(x.group, kActivationGroup);
    if (!x) {
      BALEEN_CHECK(aligned(args.x.address()) && args.x.stride(0) % 8 == 0);
      x.scale_stride = scale_stride(num_rows);
      x.codes = context.scratch.allocate<std::uint8_t>(num_rows * num_inputs);
      x.scales = context.scratch.allocate<float>(num_inputs / kSliceInputs * x.scale_stride);
      quantise_rows(args.x, x, context);
    }
    BALEEN_CHECK(aligned(x.codes) && aligned(x.scales) && x.scale_stride % 4 == 0);
    BALEEN_CHECK_LE(num_rows, x.scale_stride);
    fp8_products(fp8.outputs(), x, num_rows, context);
  }
  if (!fp8x32.outputs().empty()) run_small_blocks(fp8x32.outputs(), args.x, context);
  if (!bf16.outputs().empty()) run_plain(bf16.outputs(), args.x, context);
}

}  // namespace

void linear_few_tokens(const LinearArgs& args, CudaContext& context) {
  linear_by(fp8_products_few, args, context);
}
void linear_many_tokens(const LinearArgs& args, CudaContext& context) {
  linear_by(fp8_products_many, args, context);
}

void linear(const LinearArgs& args, CudaContext& context) { run_quickest(linear_variants(), context, args); }

std::int64_t linear_scratch_bytes(std::int64_t max_rows, std::int64_t max_inputs) {
  return Arena::bytes_for<std::uint8_t>(max_rows * max_inputs) +
         Arena::bytes_for<float>(max_inputs / kSliceInputs * scale_stride(max_rows));
}

std::int64_t linear_scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  const std::int64_t widest_input = std::max(
      {shape.hidden_size, shape.draft_input_size, shape.engram_values, shape.q_lora_rank, shape.o_dim});
  // h_proj of the MTP block sees every stream as a row.
  const std::int64_t rows = shape.max_rows, stream_rows = shape.max_rows * shape.hc_mult;
  if (shape.activation_group == kActivationGroup) {
    return std::max(linear_scratch_bytes(rows, widest_input),
                    linear_scratch_bytes(stream_rows, shape.hidden_size));
  }
  return Arena::bytes_for<Bf16Bits>(std::max(rows * widest_input, stream_rows * shape.hidden_size));
}

std::optional<Reason> why_not_linear(const LinearArgs& args, const DeviceTraits& /*traits*/) {
  for (const LinearOutput& output : args.outputs) {
    const WeightMatrix& weight = *output.weight;
    if (!is_fp8(weight.format) && weight.format != WeightFormat::kBF16)
      return "multiplies FP8 and BF16 weights";
    if (is_fp8(weight.format) && weight.activation_group != format_layout(weight.format).scale_cols)
      return "rounds activations in groups as large as the blocks of FP8 weights";
  }
  return std::nullopt;
}

}  // namespace baleen::BALEEN_ARCH
