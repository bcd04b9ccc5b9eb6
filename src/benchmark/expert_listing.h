/// The choice between transports and back-ends of experts (moe/transport) as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "moe/transport/expert_oracle.h"

namespace baleen {

/// A line for each transport and, where it is not refused, for each of its back-ends.
[[nodiscard]] std::string expert_table(const std::vector<ExpertCandidate>& candidates);
/// An object for each pair.
[[nodiscard]] nlohmann::ordered_json experts_to_json(const std::vector<ExpertCandidate>& candidates);

}  // namespace baleen
