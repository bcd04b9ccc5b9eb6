#include "tests/scheduler/fake_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/check.h"

namespace baleen {
namespace {

/// As many as a match must end with.
constexpr std::int64_t kWindowTokens = 128;

}  // namespace

FakeEngine::~FakeEngine() { EXPECT_TRUE(sequences_.empty()) << "sequences were left open"; }

EngineLimits FakeEngine::limits() const {
  return {.vocab_size = kFakeVocab,
          .max_batch_tokens = options_.max_batch_tokens,
          .max_logit_rows = options_.max_logit_rows,
          .max_sequences = options_.max_sequences,
          .max_draft_tokens = options_.max_draft_tokens,
          .context_tokens = options_.num_pages * kPageTokens};
}

void FakeEngine::Sequence::push(TokenId token) {
  histories.push_back(after(history(), token));
  tokens.push_back(token);
}

FakeEngine::Sequence& FakeEngine::find(SequenceId sequence) {
  const auto found = sequences_.find(sequence);
  BALEEN_CHECK(found != sequences_.end());
  return found->second;
}

std::optional<SequenceId> FakeEngine::open(std::span<const TokenId> prompt) {
  EXPECT_FALSE(prompt.empty());
  if (std::ssize(sequences_) == options_.max_sequences) return std::nullopt;
  ++num_opened;
  const SequenceId id{next_id_++};
  Sequence& sequence = sequences_[id];
  std::vector<History> keys;
  History history = kNoHistory;
  for (std::size_t i = 0; i + 1 < prompt.size(); ++i) {
    history = after(history, prompt[i]);
    if ((i + 1) % kPageTokens == 0) keys.push_back(history);
  }
  keys.resize(cache_.match(keys));
  for (const TokenId token : prompt.first(keys.size() * kPageTokens)) sequence.push(token);
  sequence.page_keys = std::move(keys);
  sequence.undoable_from = sequence.length();
  return id;
}

std::int64_t FakeEngine::length(SequenceId sequence) const { return sequences_.at(sequence).length(); }

std::int64_t FakeEngine::window_pages_for(const Sequence& sequence, std::int64_t end) const {
  const std::int64_t first = std::max<std::int64_t>(0, sequence.length() - kWindowTokens) / kPageTokens;
  return (end + kPageTokens - 1) / kPageTokens - first;
}

void FakeEngine::set_window(Sequence& sequence, std::int64_t end) {
  const std::int64_t pages = window_pages_for(sequence, end);
  window_pages_in_use_ += pages - sequence.window_pages;
  sequence.window_pages = pages;
}

bool FakeEngine::reserve(SequenceId id, std::int64_t num_tokens) {
  EXPECT_LE(1, num_tokens);
  Sequence& sequence = find(id);
  EXPECT_FALSE(sequence.spoilt);
  const std::int64_t end = sequence.length() + num_tokens;
  if (window_pages_in_use_ + window_pages_for(sequence, end) - sequence.window_pages >
      options_.num_window_pages) {
    return false;
  }
  const std::int64_t missing = (end - sequence.capacity() + kPageTokens - 1) / kPageTokens;
  if (missing > 0) {
    if (!cache_.take(missing)) return false;
    sequence.private_pages += missing;
  }
  set_window(sequence, end);
  return true;
}

Result<StepOutput> FakeEngine::step(std::span<const StepInput> inputs) {
  EXPECT_FALSE(inputs.empty());
  std::set<SequenceId> seen;
  std::vector<FakeStepPart> parts;
  std::int64_t num_tokens = 0, num_rows = 0;
  for (const StepInput& input : inputs) {
    const Sequence& sequence = find(input.sequence);
    EXPECT_TRUE(seen.insert(input.sequence).second) << "a sequence twice in a step";
    EXPECT_FALSE(input.tokens.empty());
    EXPECT_FALSE(sequence.spoilt);
    EXPECT_LE(sequence.length() + std::ssize(input.tokens), sequence.capacity()) << "step without reserve";
    for (const TokenId token : input.tokens) EXPECT_TRUE(token >= 0 && token < kFakeVocab);
    num_tokens += std::ssize(input.tokens);
    if (input.wanted != WantedLogits::kNone)
      num_rows += input.wanted == WantedLogits::kAll ? std::ssize(input.tokens) : 1;
    parts.push_back({input.sequence, sequence.length(), std::ssize(input.tokens), input.wanted});
  }
  EXPECT_LE(num_tokens, options_.max_batch_tokens);
  EXPECT_LE(num_rows, options_.max_logit_rows);
  const std::string fault = on_step ? on_step(parts) : "";
  if (!fault.empty()) {
    for (const StepInput& input : inputs) find(input.sequence).spoilt = true;
    return Failure{fault};
  }

  logits_.resize(static_cast<std::size_t>(num_rows * kFakeVocab));
  float* row = logits_.data();
  for (const StepInput& input : inputs) {
    Sequence& sequence = find(input.sequence);
    sequence.undoable_from = sequence.length();
    sequence.stepped = true;
    sequence.drafts.clear();
    for (std::size_t i = 0; i < input.tokens.size(); ++i) {
      sequence.push(input.tokens[i]);
      if (input.wanted == WantedLogits::kNone) continue;
      if (input.wanted == WantedLogits::kLast && i + 1 < input.tokens.size()) continue;
      fake_logits(sequence.history(), {row, kFakeVocab});
      row += kFakeVocab;
    }
    set_window(sequence, sequence.length());
  }
  return StepOutput{.logits = {logits_.data(), {num_rows, kFakeVocab}}};
}

void FakeEngine::truncate(SequenceId id, std::int64_t length) {
  Sequence& sequence = find(id);
  EXPECT_LE(length, sequence.length());
  EXPECT_LE(sequence.length() - length, options_.max_draft_tokens);
  EXPECT_LE(sequence.undoable_from, length) << "truncated to before the last step";
  sequence.tokens.resize(static_cast<std::size_t>(length));
  sequence.histories.resize(static_cast<std::size_t>(length));
}

Result<ConstActivations<2>> FakeEngine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  EXPECT_LT(depth, options_.max_draft_tokens);
  EXPECT_LE(std::ssize(inputs), std::min(options_.max_batch_tokens, options_.max_logit_rows));
  if (drafts_fail) return failure("the MTP block made a NaN");
  logits_.resize(inputs.size() * kFakeVocab);
  float* row = logits_.data();
  for (const DraftInput& input : inputs) {
    Sequence& sequence = find(input.sequence);
    EXPECT_TRUE(sequence.stepped) << "drafts follow a step";
    EXPECT_LE(sequence.length() + depth + 1, sequence.capacity()) << "draft without reserve";
    if (depth == 0) sequence.drafts.clear();
    EXPECT_EQ(std::ssize(sequence.drafts), depth) << "a chain has no holes";
    sequence.drafts.push_back(input.token);
    const History history = after(sequence.history(), sequence.drafts);
    const bool knows = fake_chance(history, ~std::uint64_t{0}) < options_.draft_quality;
    fake_logits(knows ? history : ~history, {row, kFakeVocab});
    row += kFakeVocab;
  }
  return ConstActivations<2>{logits_.data(), {std::ssize(inputs), kFakeVocab}};
}

void FakeEngine::share(SequenceId id) {
  Sequence& sequence = find(id);
  EXPECT_FALSE(sequence.spoilt);
  while ((std::ssize(sequence.page_keys) + 1) * kPageTokens <= sequence.length()) {
    const History parent = sequence.page_keys.empty() ? kNoHistory : sequence.page_keys.back();
    const History key = sequence.histories[(sequence.page_keys.size() + 1) * kPageTokens - 1];
    cache_.insert(parent, key);
    sequence.page_keys.push_back(key);
    --sequence.private_pages;
  }
}

void FakeEngine::close(SequenceId id, bool keep) {
  Sequence& sequence = find(id);
  EXPECT_FALSE(keep && sequence.spoilt) << "a spoilt sequence must not be kept";
  if (keep) share(id);
  cache_.unlock(sequence.page_keys);
  cache_.give_back(sequence.private_pages);
  window_pages_in_use_ -= sequence.window_pages;
  sequences_.erase(id);
}

CacheUse FakeEngine::cache_use() const {
  const PoolUse& use = cache_.use();
  EXPECT_EQ(use.free + use.cached + use.in_use, use.total);
  const std::int64_t open = std::ssize(sequences_);
  return {.pages = use,
          .window_pages = {.total = options_.num_window_pages,
                           .free = options_.num_window_pages - window_pages_in_use_,
                           .in_use = window_pages_in_use_},
          .state_slots = {
              .total = options_.max_sequences, .free = options_.max_sequences - open, .in_use = open}};
}

}  // namespace baleen
