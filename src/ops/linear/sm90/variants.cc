// The variants of linear on Hopper.

#include <algorithm>
#include <array>
#include <optional>

#include "ops/linear/sm90/linear.h"
#include "ops/linear/sm90/linear_time.h"

namespace baleen::sm90 {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& /*traits*/) {
  const std::int64_t widest_input =
      std::max({shape.hidden_size, shape.draft_input_size, shape.q_lora_rank, shape.o_dim});
  return std::max(linear_scratch_bytes(shape.max_rows, widest_input),
                  // h_proj of the MTP block sees every stream as a row.
                  linear_scratch_bytes(shape.max_rows * shape.hc_mult, shape.hidden_size));
}

std::optional<Reason> why_not(const LinearArgs& args, const DeviceTraits& /*traits*/) {
  for (const LinearOutput& output : args.outputs) {
    if (output.weight->format != WeightFormat::kFp8 && output.weight->format != WeightFormat::kBF16)
      return "multiplies FP8 and BF16 weights";
  }
  return std::nullopt;
}

}  // namespace

std::span<const CudaVariant<ops::Linear>> linear_variants() {
  static constexpr std::array<CudaVariant<ops::Linear>, 2> kVariants{
      {{.name = "sm90/few_tokens",
        .run = linear_few_tokens,
        .why_not = why_not,
        .predict = linear_seconds<few_tokens_work>,
        .scratch_bytes = scratch_bytes},
       {.name = "sm90/many_tokens",
        .run = linear_many_tokens,
        .why_not = why_not,
        .predict = linear_seconds<many_tokens_work>,
        .scratch_bytes = scratch_bytes}}};
  return kVariants;
}

}  // namespace baleen::sm90
