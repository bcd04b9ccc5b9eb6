/// What commands print of the choice between transports and back-ends of experts (model/expert_oracle).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/model_engine.h"
#include "model/expert_oracle.h"

namespace baleen {

/// A line for each transport and, where it is not refused, for each of its back-ends.
[[nodiscard]] std::string expert_table(const std::vector<ExpertCandidate>& candidates);
/// An object for each pair.
[[nodiscard]] nlohmann::ordered_json experts_to_json(const std::vector<ExpertCandidate>& candidates);

/// Says on standard error by which transport the engine's ranks reach their experts; nothing where a
/// rank has all of them.
void log_expert_transport(const ModelEngine& engine);

}  // namespace baleen
