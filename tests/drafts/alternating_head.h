/// A draft head without weights: it guesses that a text goes on as its last two tokens in turn.
#pragma once

#include "drafts/draft_head.h"

namespace baleen::test {

/// Keeps one value a position for as many positions as a truncation may leave as last: the token there. Of
/// the CPU, and of any model.
extern const DraftHeadType kAlternatingHead;

}  // namespace baleen::test
