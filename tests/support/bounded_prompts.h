/// Prompts whose decoder half is computed on their last tokens alone, through any engine.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "tests/support/run_sequence.h"

namespace baleen::test {

/// Feeds tokens from where the sequence is up to `end`, pieces of `chunk`; no logits.
inline void feed_quietly(StepEngine& engine, SequenceId sequence, std::span<const TokenId> tokens,
                         std::size_t end, std::size_t chunk) {
  for (auto at = static_cast<std::size_t>(engine.length(sequence)); at < end;) {
    const std::size_t count = std::min(chunk, end - at);
    static_cast<void>(step(engine, sequence, tokens.subspan(at, count), WantedLogits::kNone));
    at += count;
  }
}

/// Logits of the last token of the prompt, the first `prompt` of `tokens`, and of those behind it one by one.
inline std::vector<float> behind_prompt(StepEngine& engine, SequenceId sequence,
                                        std::span<const TokenId> tokens, std::size_t prompt,
                                        std::size_t chunk) {
  feed_quietly(engine, sequence, tokens, prompt - 1, chunk);
  return feed(engine, sequence, tokens.subspan(static_cast<std::size_t>(engine.length(sequence))), 1).main;
}

/// The same in a sequence of its own.
inline std::vector<float> run_prompt(StepEngine& engine, std::span<const TokenId> tokens, std::size_t prompt,
                                     std::size_t chunk) {
  const SequenceId sequence = *engine.open_prompt({}, static_cast<std::int64_t>(prompt));
  std::vector<float> logits = behind_prompt(engine, sequence, tokens, prompt, chunk);
  engine.close(sequence, false);
  return logits;
}

}  // namespace baleen::test
