/// What config.json says of a checkpoint otherwise than its tensors do.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/checkpoint_kind.h"

namespace baleen {

/// A sentence for each field of `config`, an object, that the tensors contradict without leaving a doubt of
/// what they are: formats, and heads and towers that are not there. What they contradict in shapes is the
/// table's question (`mismatches`), and "num_nextn_predict_layers" is believed by no one: releases have 1
/// there beside three DSpark stages.
[[nodiscard]] std::vector<std::string> config_contradictions(const nlohmann::ordered_json& config,
                                                             const CheckpointKind& kind);

}  // namespace baleen
