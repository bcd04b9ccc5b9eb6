/// The characters that `fold_text` changes, sorted.
#pragma once

#include <span>

namespace baleen::text_folding {

struct RemovedRange {
  char32_t first, last;
};
/// Every `step`th character becomes the one `delta` away.
struct ShiftedRun {
  char32_t first, last;
  int step, delta;
};
struct SpelledCharacter {
  char32_t code;
  const char* text;
};

[[nodiscard]] std::span<const RemovedRange> removed_ranges();
[[nodiscard]] std::span<const ShiftedRun> shifted_runs();
[[nodiscard]] std::span<const SpelledCharacter> spelled_characters();

}  // namespace baleen::text_folding
