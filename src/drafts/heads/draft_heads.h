/// The draft heads that there are.
#pragma once

#include "drafts/draft_head.h"

namespace baleen {

/// The head of a whole model; null: it has none, or none that is known here. What is returned lives as long
/// as the program.
[[nodiscard]] const DraftHeadType* draft_head_of(const ModelConfig& config);

}  // namespace baleen
