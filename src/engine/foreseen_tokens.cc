#include "engine/foreseen_tokens.h"

#include <algorithm>
#include <deque>

namespace baleen {

void ForeseenTokens::open(SequenceId sequence, std::span<const TokenId> prompt) {
  if (store_ == nullptr) return;
  const std::int64_t begin = sequences_.length(sequence);
  const auto rest = prompt.subspan(std::min(prompt.size(), static_cast<std::size_t>(begin)));
  foreseen_[sequence] = {begin, {rest.begin(), rest.end()}};
}

void ForeseenTokens::foresee(SequenceId sequence, std::span<const TokenId> tokens) {
  if (store_ == nullptr) return;
  foreseen_[sequence] = {sequences_.length(sequence), {tokens.begin(), tokens.end()}};
  fetch(sequence, tokens);
}

void ForeseenTokens::foresee(std::span<const DraftInput> inputs, std::int64_t depth) {
  if (store_ == nullptr) return;
  for (const DraftInput& input : inputs) {
    Tokens& chain = foreseen_[input.sequence];
    const std::int64_t begin = sequences_.length(input.sequence);
    if (depth == 0 || chain.begin != begin) chain = {begin, {}};
    chain.ids.resize(std::min(chain.ids.size(), static_cast<std::size_t>(depth)));
    chain.ids.push_back(input.token);
    fetch(input.sequence, chain.ids);
  }
}

void ForeseenTokens::fetch(SequenceId sequence, std::span<const TokenId> ids) {
  const EngramRun run{.before = sequences_.tokens(sequence),
                      .ids = ids.first(std::min(ids.size(), static_cast<std::size_t>(max_batch_tokens_)))};
  store_->prefetch({&run, 1});
}

void ForeseenTokens::before_step(std::span<const StepInput> inputs) {
  if (store_ == nullptr) return;
  std::erase_if(foreseen_, [&](const auto& one) { return !sequences_.contains(one.first); });
  std::vector<EngramRun> runs;
  std::deque<std::vector<TokenId>> before;  // tokens up to the end of each step's part
  for (const StepInput& input : inputs) {
    const auto found = foreseen_.find(input.sequence);
    if (found == foreseen_.end()) continue;
    const auto& [begin, ids] = found->second;
    const std::int64_t end = sequences_.length(input.sequence) + std::ssize(input.tokens);
    if (end < begin || end >= begin + std::ssize(ids)) continue;
    const auto rest = std::span(ids).subspan(static_cast<std::size_t>(end - begin));
    const std::span<const TokenId> last = sequences_.tokens(input.sequence);
    const auto few = last.last(std::min(last.size(), store_->num_before()));
    std::vector<TokenId>& all = before.emplace_back(few.begin(), few.end());
    all.insert(all.end(), input.tokens.begin(), input.tokens.end());
    runs.push_back({.before = all, .ids = rest.first(std::min(rest.size(), input.tokens.size()))});
  }
  store_->prefetch_behind_step(runs);
}

void ForeseenTokens::step_is_under_way() {
  if (store_ != nullptr) store_->step_is_under_way();
}

}  // namespace baleen
