/// Sequences that draft, through an engine that chooses tokens: link by link, or with steps that are queued.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tests/support/run_sequence.h"

namespace baleen::test {

/// The likeliest token of the last row.
inline TokenId best(const StepOutput& output) {
  const auto row = output.logits.row(output.logits.extent(0) - 1);
  return static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
}

/// Tokens of two sequences that guess up to three and one tokens ahead, and what was drafted: link by link,
/// or queued with the step that checks the drafts. `confidence`: one for each of `drafted`, or none.
struct Speculated {
  std::vector<TokenId> tokens[2], drafted;
  std::vector<float> confidence;
};

inline std::vector<TokenId> draft_by_link(StepEngine& engine, SequenceId sequence, TokenId newest,
                                          std::int64_t count, std::vector<float>* confidence = nullptr) {
  std::vector<TokenId> drafts;
  for (std::int64_t depth = 0; depth < count; ++depth) {
    const DraftInput input{sequence, drafts.empty() ? newest : drafts.back(), SampleRow{}};
    const Result<DraftOutput> link = engine.draft({&input, 1}, depth);
    drafts.push_back(link.value().chosen.front());
    const std::span<const float> stated = link.value().confidence;
    if (confidence != nullptr) confidence->insert(confidence->end(), stated.begin(), stated.end());
  }
  return drafts;
}

inline Speculated speculate(StepEngine& engine, bool queued) {
  constexpr std::size_t kTokens = 40;  // beyond a page
  const std::vector<SampleRow> greedy(4);
  const std::int64_t num_drafts[2] = {3, 1};
  Speculated result;
  SequenceId ids[2] = {*engine.open({}), *engine.open({})};
  for (int i : {0, 1}) {
    const std::vector<TokenId> prompt = random_tokens(236 + i, engine.limits().vocab_size, 3);
    for (std::size_t begin = 0; begin < prompt.size(); begin += 59) {
      const auto chunk = std::span(prompt).subspan(begin, std::min<std::size_t>(59, prompt.size() - begin));
      const bool last = begin + chunk.size() == prompt.size();
      const StepOutput output = step(engine, ids[i], chunk, last ? WantedLogits::kLast : WantedLogits::kNone);
      if (last) result.tokens[i].push_back(best(output));
    }
  }
  while (result.tokens[0].size() < kTokens || result.tokens[1].size() < kTokens) {
    std::vector<TokenId> fed[2];
    std::vector<StepInput> inputs;
    for (int i : {0, 1}) {
      const TokenId newest = result.tokens[i].back();
      EXPECT_TRUE(engine.reserve(ids[i], std::max(1 + num_drafts[i], engine.limits().least_draft_room)));
      fed[i] = {newest};
      const auto draws = std::span(greedy).first(static_cast<std::size_t>(1 + num_drafts[i]));
      if (!queued) {
        const std::vector<TokenId> drafts =
            draft_by_link(engine, ids[i], newest, num_drafts[i], &result.confidence);
        fed[i].insert(fed[i].end(), drafts.begin(), drafts.end());
      }
      inputs.push_back({.sequence = ids[i],
                        .tokens = fed[i],
                        .wanted = queued ? WantedLogits::kLast : WantedLogits::kAll,
                        .draws = draws,
                        .wants_draft_logits = false,
                        .num_drafts = queued ? num_drafts[i] : 0});
    }
    if (queued) {
      EXPECT_FALSE(engine.queue(inputs));
    }
    const Result<StepOutput> output = queued ? engine.collect() : engine.step(inputs);
    if (!output) throw std::runtime_error(output.error());
    const std::span<const float> stated = output.value().confidence;
    result.confidence.insert(result.confidence.end(), stated.begin(), stated.end());
    std::size_t row = 0, draft = 0;
    for (int i : {0, 1}) {
      for (std::int64_t d = 0; queued && d < num_drafts[i]; ++d)
        fed[i].push_back(output.value().drafted[draft++]);
      result.drafted.insert(result.drafted.end(), fed[i].begin() + 1, fed[i].end());
      std::int64_t accepted = 0;
      for (;; ++accepted) {
        const TokenId token = output.value().chosen[row + static_cast<std::size_t>(accepted)];
        result.tokens[i].push_back(token);
        if (accepted == num_drafts[i] || token != fed[i][static_cast<std::size_t>(1 + accepted)]) break;
      }
      row += static_cast<std::size_t>(1 + num_drafts[i]);
      const std::int64_t wrong = num_drafts[i] - accepted;
      if (wrong > 0) engine.truncate(ids[i], engine.length(ids[i]) - wrong);
    }
  }
  for (const SequenceId id : ids) engine.close(id, false);
  return result;
}

}  // namespace baleen::test
