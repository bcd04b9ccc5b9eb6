/// Where in the model an operation of a step belongs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "simulator/cost/step_estimate.h"

namespace baleen {

enum class StepPlace : std::uint8_t { kSlidingWindow, kCsa, kHca, kOutside, kDraft, kCount };

inline constexpr std::array<StepPlace, 5> kStepPlaces{
    StepPlace::kSlidingWindow, StepPlace::kCsa, StepPlace::kHca, StepPlace::kOutside, StepPlace::kDraft};

/// "CSA layers"
[[nodiscard]] std::string_view place_name(StepPlace place);
/// Class of its colour on pages.
[[nodiscard]] std::string_view place_style(StepPlace place);

/// `config` of the whole model, `stage` that `op` runs in.
[[nodiscard]] StepPlace place_of(const ModelConfig& config, const Stage& stage, const GraphOp& op);

/// Number of its layer in the whole model; -1: of none.
[[nodiscard]] std::int64_t model_layer(const Stage& stage, const GraphOp& op);

}  // namespace baleen
