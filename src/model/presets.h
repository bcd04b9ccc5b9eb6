/// Known geometries: tiny test models, a model for benchmarks, and the released ones.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model/config.h"

namespace baleen {

struct Preset {
  std::string_view name;
  std::string_view description;  ///< one line, for help texts
  ModelConfig (*config)();
};

[[nodiscard]] std::span<const Preset> presets();

/// Throws `Error`, naming the presets, when there is none called `name`.
[[nodiscard]] ModelConfig preset_config(std::string_view name);

/// The same model with its first `num_layers` layers (those of a draft head stay, and read the last; of a
/// V4.1 the first of both halves, which differ) or its first `num_experts` routed experts, of which a token
/// uses at most that many. Throws `Error` when the model has fewer, or for less than one.
[[nodiscard]] ModelConfig with_layers(ModelConfig config, std::int64_t num_layers);
[[nodiscard]] ModelConfig with_experts(ModelConfig config, std::int64_t num_experts);
/// The fewest layers that `with_layers` keeps: a draft head reads the last ones, and of a V4.1 there are one
/// that makes entries and one with a table of n-grams.
[[nodiscard]] std::int64_t fewest_layers(const ModelConfig& config);

/// The same V4.1 with smaller tables of n-grams: at least so many rows of each hash.
[[nodiscard]] ModelConfig with_engram_vocabulary(ModelConfig config, std::int64_t vocab_size);

}  // namespace baleen
