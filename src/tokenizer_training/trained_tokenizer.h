/// Trained merges as a tokenizer in the released form.
#pragma once

#include "tokenizer/tokenizer_json.h"
#include "tokenizer/v4_format.h"
#include "tokenizer_training/pair_merges.h"

namespace baleen {

/// The leading special tokens, the alphabet and the trained tokens, then the other special tokens, with ids
/// in this order.
[[nodiscard]] TokenizerJson trained_tokenizer(const TrainedMerges& merges, SpecialTokenSet set);

}  // namespace baleen
