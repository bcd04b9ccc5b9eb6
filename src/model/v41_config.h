/// The config.json of DeepSeek-V4.1: the text model within "text_config", formats and tokens beside it.
/// (source: releases specification 1.2, 9.A)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "model/config.h"

namespace baleen {

inline constexpr std::string_view kV41ModelType = "deepseek_v41";  ///< "model_type" begins so

/// Reads `object`, without comparing fields with one another. A field that is not known here is refused by
/// its name: what another release of the family changes by it would be a guess. Throws `Error`.
[[nodiscard]] ModelConfig read_v41_config(const nlohmann::ordered_json& object, std::string_view label,
                                          const std::optional<DraftBlocks>& drafts);

/// The config.json of such a model, without "vision_config"; `read_v41_config` of it gives `config` back.
[[nodiscard]] nlohmann::ordered_json v41_config_object(const ModelConfig& config);

/// Throw `Error` for numbers of experts, for sources that no layer can read, and for tables that are not
/// those of the fields.
/// Each token has several experts, whose weights are divided by their sum.
void check_selected_experts(const ModelConfig& config, std::string_view label);
void check_shared_streams(const ModelConfig& config, std::string_view label);
void check_engram(const ModelConfig& config, std::string_view label);

}  // namespace baleen
