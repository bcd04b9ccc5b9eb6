#include "ops/linear/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/matmul/int8_copies.h"
#include "ops/matmul/training_products.h"

namespace baleen {

ActivationRounding activation_rounding(WeightFormat format, int group, Precision precision) {
  const bool packed = is_fp8(format) || format == WeightFormat::kFp4 || format == WeightFormat::kNvfp4;
  if (!packed || precision != Precision::kReleased) return ActivationRounding::kNone;
  BALEEN_CHECK(group == kActivationGroup || group == kSmallActivationGroup);
  return group == kActivationGroup ? ActivationRounding::kFp8 : ActivationRounding::kFp8x32;
}

ActivationRounding activation_rounding(const WeightMatrix& weight, Precision precision) {
  return activation_rounding(weight.format, weight.activation_group, precision);
}

namespace {

/// The products of a call, in `products`.
std::span<const MatmulProduct> products_of(const LinearArgs& args, std::array<MatmulProduct, 8>& products) {
  BALEEN_CHECK_LE(args.outputs.size(), products.size());
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    const LinearOutput& output = args.outputs[i];
    products[i] = {.weight = output.weight,
                   .x = args.x,
                   .rounding = activation_rounding(*output.weight, args.precision),
                   .round_bf16 = !output.keep_f32 && args.precision != Precision::kExact,
                   .y = output.y};
  }
  return std::span(products).first(args.outputs.size());
}

}  // namespace

void linear_cpu(const LinearArgs& args, CpuContext& context) {
  std::array<MatmulProduct, 8> products;
  matmul(products_of(args, products), context);
}

void linear_int8(const LinearArgs& args, CpuContext& context) {
  std::array<MatmulProduct, 8> products;
  (void)products_of(args, products);
  const auto used = std::span(products).first(args.outputs.size());
  for (MatmulProduct& product : used) {
    if (fp8_group(product.rounding) == 0) continue;  // BF16 and float32 weights take x as it is
    product.rounding = ActivationRounding::kInt8;
    if (is_fp8(product.weight->format)) product.weight = &int8_copy(*product.weight, context);
  }
  matmul(used, context);
}

void linear_ref(const LinearArgs& args) {
  std::array<MatmulProduct, 8> products;
  matmul_ref(products_of(args, products));
}

}  // namespace baleen

namespace baleen::ops {
namespace {

template <Operands kOperands>
void train(const LinearArgs& args, CpuContext& context) {
  std::array<MatmulProduct, 8> products;
  matmul_training(products_of(args, products), kOperands, context);
}

std::optional<Reason> why_not_training_call(const LinearArgs& args, const DeviceTraits& /*traits*/) {
  for (const LinearOutput& output : args.outputs)
    if (const auto why = why_not_training(output.weight->format)) return why;
  return std::nullopt;
}

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  const std::int64_t widest_input = std::max(
      {shape.hidden_size, shape.draft_input_size, shape.engram_values, shape.q_lora_rank, shape.o_dim});
  return std::max(linear_scratch_bytes(shape.max_rows, widest_input),
                  // h_proj of a draft head sees every stream as a row.
                  linear_scratch_bytes(shape.max_rows * shape.hc_mult, shape.hidden_size));
}

}  // namespace

CallShape Linear::shape(const LinearArgs& args) {
  CallShape shape{.num_rows = args.x.extent(0), .num_kernels = static_cast<int>(args.outputs.size())};
  for (const LinearOutput& output : args.outputs) {
    shape.detail += fmt::format("{}{}{}[{} -> {}]", shape.detail.empty() ? "" : " ", output.name,
                                output.name.empty() ? "" : " ", output.weight->cols, output.weight->rows);
  }
  return shape;
}

CallKey Linear::key(const LinearArgs& args) {
  CallKey key{args.x.extent(0), args.x.extent(1)};
  for (const LinearOutput& output : args.outputs) {
    key.add(static_cast<std::int64_t>(output.weight->format));
    key.add(output.weight->rows);
  }
  return key;
}

void Linear::accesses(const LinearArgs& args, Accesses& to) {
  to.read(args.x).read(args.x_fp8, args.x.extent(0), args.x.extent(1));
  for (const LinearOutput& output : args.outputs) to.write(output.y);
}

std::span<const CpuVariant<Linear>> Linear::cpu_variants() {
  static constexpr std::array<CpuVariant<Linear>, 5> kVariants{
      {{.name = kSimdVariant, .run = linear_cpu, .scratch_bytes = scratch_bytes},
       {.name = kInt8Variant,
        .run = linear_int8,
        .why_not = [](const LinearArgs& args, const DeviceTraits& /*traits*/) -> std::optional<Reason> {
          if (args.precision != Precision::kReleased) return kInt8RoundsActivations;
          return std::nullopt;
        },
        .scratch_bytes = scratch_bytes},
       {.name = kTrainingVariant, .run = train<Operands::kAsStored>, .why_not = why_not_training_call},
       {.name = kTrainingBf16Variant, .run = train<Operands::kBf16>, .why_not = why_not_training_call},
       {.name = kReferenceVariant,
        .run = [](const LinearArgs& args, CpuContext& /*context*/) { linear_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
