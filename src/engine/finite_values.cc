#include "engine/finite_values.h"

#include <algorithm>

namespace baleen {

bool all_finite(const ConstActivations<2>& values) {
  const auto size = static_cast<std::size_t>(values.size());
  if (values.element_type() == ElementType::kBf16) {
    constexpr unsigned kExponent = 0x7F80;
    return std::ranges::none_of(std::span(values.bf16().data(), size),
                                [](Bf16Bits bits) { return (bits & kExponent) == kExponent; });
  }
  // x - x is 0 for every finite x and NaN otherwise; a sum of such differences vectorises, a branch does not.
  float sum = 0.0F;
  for (const float value : std::span(values.data(), size)) sum += value - value;
  return sum == 0.0F;
}

bool all_chosen(std::span<const TokenId> tokens) {
  return std::ranges::find(tokens, kNoToken) == tokens.end();
}

Failure not_numbers(const ModelConfig& config, std::optional<std::int64_t> bad_block) {
  return failure("the logits are not numbers: {}; the weights are damaged or leave the range of float32",
                 bad_block ? fmt::format("first in layer {} ({})", *bad_block,
                                         layer_kind_name(config.layer_kind(*bad_block)))
                           : "every layer's output is finite, the head's is not");
}

}  // namespace baleen
