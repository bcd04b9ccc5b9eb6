/// The draft heads that there are.
#pragma once

#include <string>

#include "drafts/draft_head.h"
#include "model/checkpoint_kind.h"

namespace baleen {

/// The head of a whole model; null: it has none, or none that is known here. What is returned lives as long
/// as the program.
[[nodiscard]] const DraftHeadType* draft_head_of(const ModelConfig& config);

/// Why nothing is drafted with this checkpoint, as the sentence that follows an option; empty: it drafts.
[[nodiscard]] std::string why_no_drafts(const CheckpointKind& kind);

}  // namespace baleen
