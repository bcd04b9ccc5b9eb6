/// A draft head without weights: it guesses that a text goes on as its last two tokens in turn.
#pragma once

#include "drafts/draft_head.h"

namespace baleen::test {

/// Keeps one value a position for as many positions as a truncation may leave as last: the token there. Of
/// the CPU, and of any model. Tells confidences.
extern const DraftHeadType kAlternatingHead;

/// What it says of a draft of that depth behind the token `fed`.
[[nodiscard]] float alternating_confidence(TokenId fed, std::int64_t depth);

}  // namespace baleen::test
