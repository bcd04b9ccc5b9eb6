#include "ops/linear/linear.h"

#include <array>

#include "base/check.h"

namespace baleen {

ActivationRounding activation_rounding(WeightFormat format, Precision precision) {
  const bool packed = format == WeightFormat::kFp8 || format == WeightFormat::kFp4;
  return packed && precision == Precision::kReleased ? ActivationRounding::kFp8 : ActivationRounding::kNone;
}

void linear(const LinearArgs& args, CpuContext& context) {
  std::array<MatmulProduct, 8> products;
  BALEEN_CHECK_LE(args.outputs.size(), products.size());
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    const LinearOutput& output = args.outputs[i];
    products[i] = {.weight = output.weight,
                   .x = args.x,
                   .rounding = activation_rounding(output.weight->format, args.precision),
                   .round_bf16 = !output.keep_f32 && args.precision != Precision::kExact,
                   .y = output.y};
  }
  matmul(std::span(products).first(args.outputs.size()), context);
}

}  // namespace baleen
