/// What the inputs of a step come to in rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step_engine.h"

namespace baleen {

/// Its tokens and the drafts behind them.
[[nodiscard]] std::int64_t num_rows_of(const StepInput& input);
/// Its last rows, whose logits are wanted.
[[nodiscard]] std::int64_t num_wanted_of(const StepInput& input);
/// The largest `num_drafts` of the inputs.
[[nodiscard]] std::int64_t most_drafts(std::span<const StepInput> inputs);
/// Those of all inputs, in their order.
[[nodiscard]] std::vector<SampleRow> draws_of(std::span<const StepInput> inputs);

}  // namespace baleen
