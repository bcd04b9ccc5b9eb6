/// Whole sequences through an engine, with all their logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/engine.h"

namespace baleen::test {

[[nodiscard]] inline std::vector<TokenId> random_tokens(std::int64_t count, std::int64_t vocab_size,
                                                        std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens)
    token = static_cast<TokenId>(random() % static_cast<std::uint32_t>(vocab_size));
  return tokens;
}

/// Logits of one sequence, row after row.
struct SequenceLogits {
  std::vector<float> main;  ///< [T, V]
  std::vector<float> mtp;   ///< [T - 1, V], empty in engines without `mtp`

  void append(const StepOutput& output) {
    main.insert(main.end(), output.logits.data(), output.logits.data() + output.logits.size());
    mtp.insert(mtp.end(), output.draft_logits.data(),
               output.draft_logits.data() + output.draft_logits.size());
  }
};

/// One step of one sequence, which must succeed.
inline StepOutput step(StepEngine& engine, SequenceId sequence, std::span<const TokenId> tokens,
                       WantedLogits wanted = WantedLogits::kAll) {
  const StepInput input{sequence, tokens, wanted};
  Result<StepOutput> output = engine.step({&input, 1});
  if (!output) throw std::runtime_error(output.error());
  return output.value();
}

/// `tokens` as the next ones of `sequence`, `chunk` a step.
inline SequenceLogits feed(StepEngine& engine, SequenceId sequence, std::span<const TokenId> tokens,
                           std::size_t chunk) {
  SequenceLogits logits;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    logits.append(step(engine, sequence, tokens.subspan(begin, std::min(chunk, tokens.size() - begin))));
  }
  return logits;
}

/// The same in a sequence of its own.
inline SequenceLogits run_sequence(StepEngine& engine, std::span<const TokenId> tokens, std::size_t chunk) {
  const SequenceId sequence = *engine.open({});
  const SequenceLogits logits = feed(engine, sequence, tokens, chunk);
  engine.close(sequence, false);
  return logits;
}

}  // namespace baleen::test
