/// Sequences side by side as a server has them: prompts in chunks, then replies with drafts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "tests/support/run_sequence.h"

namespace baleen::test {

struct Conversation {
  std::vector<TokenId> tokens;
  std::size_t num_prompt = 0;
  SequenceId id{};
  std::size_t next = 0;
};

inline void note(std::vector<float>& seen, const ConstActivations<2>& logits) {
  seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
}

/// Prompts of these lengths side by side in chunks of random sizes, then replies with drafts that are taken
/// back in part. All logits that an engine shows of them.
inline std::vector<float> converse(StepEngine& engine, std::span<const std::size_t> lengths,
                                   std::uint32_t seed, std::int64_t num_drafts) {
  std::mt19937 random(seed);
  std::vector<float> seen;
  std::vector<Conversation> all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Conversation one{
        .tokens = random_tokens(static_cast<std::int64_t>(lengths[i]) + 12, engine.limits().vocab_size,
                                seed + static_cast<std::uint32_t>(i)),
        .num_prompt = lengths[i]};
    one.id = *engine.open_prompt(std::span(one.tokens).first(one.num_prompt),
                                 static_cast<std::int64_t>(one.num_prompt));
    one.next = static_cast<std::size_t>(engine.length(one.id));
    all.push_back(std::move(one));
  }
  const auto is_open = [](const Conversation& one) { return one.next < one.tokens.size(); };
  while (std::ranges::any_of(all, is_open)) {
    std::vector<StepInput> inputs;
    for (Conversation& one : all) {
      if (!is_open(one)) continue;
      const std::size_t most = std::min<std::size_t>(300 / all.size(), 1 + random() % 150);
      if (one.next < one.num_prompt) {
        const std::size_t count = std::min(most, one.num_prompt - one.next);
        const bool ends = one.next + count == one.num_prompt;
        inputs.push_back({one.id, std::span(one.tokens).subspan(one.next, count),
                          ends ? WantedLogits::kLast : WantedLogits::kNone});
        continue;
      }
      const std::size_t count =
          std::min<std::size_t>(1 + static_cast<std::size_t>(num_drafts), one.tokens.size() - one.next);
      EXPECT_TRUE(engine.reserve(
          one.id, std::max(static_cast<std::int64_t>(count), engine.limits().least_draft_room)));
      for (std::int64_t depth = 0; depth + 1 < static_cast<std::int64_t>(count); ++depth) {
        const DraftInput draft{one.id, one.tokens[one.next + static_cast<std::size_t>(depth)]};
        const Result<DraftOutput> output = engine.draft({&draft, 1}, depth);
        EXPECT_TRUE(output.ok());
        if (output) note(seen, output.value().logits);
      }
      inputs.push_back({one.id, std::span(one.tokens).subspan(one.next, count), WantedLogits::kAll});
    }
    const Result<StepOutput> output = engine.step(inputs);
    if (!output) {
      ADD_FAILURE() << output.error();
      return seen;
    }
    note(seen, output.value().logits);
    note(seen, output.value().draft_logits);
    for (const StepInput& input : inputs) {
      Conversation& one = *std::ranges::find(all, input.sequence, &Conversation::id);
      const bool decoded = one.next >= one.num_prompt;
      one.next += input.tokens.size();
      if (decoded && input.tokens.size() > 1 && random() % 2 == 0) {
        --one.next;
        engine.truncate(one.id, static_cast<std::int64_t>(one.next));
      } else if (one.next == one.num_prompt) {
        engine.share(one.id);
      }
    }
  }
  for (const Conversation& one : all) engine.close(one.id, true);
  return seen;
}

}  // namespace baleen::test
