/// The MTP block as a draft head: over the rows of a step, and in chains of drafts.
///
/// Its row of position p takes the streams of p and the token p + 1. So the row of a step's last position
/// comes with the next step, or with a draft, which guesses the token; the step after it writes the row
/// again.
#pragma once

#include "drafts/draft_head.h"

namespace baleen {

extern const DraftHeadType kMtpHead;

}  // namespace baleen
