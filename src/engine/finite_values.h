/// Values that are no numbers, and the sentence about them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "model/config.h"
#include "ops/sample/sample.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Whether no value is infinite or NaN. `values`: dense, in host memory.
[[nodiscard]] bool all_finite(const ConstActivations<2>& values);

/// Whether tokens were chosen from numbers: where logits are none, `sample` leaves kNoToken.
[[nodiscard]] bool all_chosen(std::span<const TokenId> tokens);

/// The sentence about a step's logits. `bad_block`: the first of the whole model whose output is not finite.
[[nodiscard]] Failure not_numbers(const ModelConfig& config, std::optional<std::int64_t> bad_block);

}  // namespace baleen
