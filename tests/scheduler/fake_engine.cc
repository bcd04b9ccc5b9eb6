#include "tests/scheduler/fake_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/check.h"

namespace baleen {

FakeEngine::FakeEngine(const FakeEngineOptions& options)
    : options_(options), paging_(options.paging(options.pools)) {}

FakeEngine::~FakeEngine() { EXPECT_TRUE(sequences_.empty()) << "sequences were left open"; }

EngineLimits FakeEngine::limits() const {
  return {.vocab_size = kFakeVocab,
          .max_batch_tokens = options_.max_batch_tokens,
          .max_logit_rows = options_.max_logit_rows,
          .max_sequences = options_.pools.max_sequences,
          .max_draft_tokens = options_.pools.max_draft_tokens,
          .context_tokens = options_.pools.num_pages * kPageTokens,
          .chooses = options_.chooses};
}

FakeEngine::Sequence& FakeEngine::find(SequenceId sequence) {
  const auto found = sequences_.find(sequence);
  BALEEN_CHECK(found != sequences_.end());
  return found->second;
}

std::optional<SequenceId> FakeEngine::open(std::span<const TokenId> prompt) {
  EXPECT_FALSE(prompt.empty());
  const auto id = paging_->open(prompt);
  if (!id) return std::nullopt;
  ++num_opened;
  Sequence& sequence = sequences_[*id];
  for (const TokenId token : paging_->tokens(*id)) {
    sequence.histories.push_back(after(sequence.history(), token));
  }
  const std::int64_t found = length(*id);
  EXPECT_LT(found, std::ssize(prompt));
  EXPECT_EQ(sequence.history(), after(kNoHistory, prompt.first(static_cast<std::size_t>(found))));
  sequence.undoable_from = found;
  return id;
}

std::int64_t FakeEngine::length(SequenceId sequence) const { return std::ssize(paging_->tokens(sequence)); }

bool FakeEngine::reserve(SequenceId sequence, std::int64_t num_tokens) {
  EXPECT_LE(1, num_tokens);
  EXPECT_FALSE(find(sequence).spoilt);
  return paging_->reserve(sequence, num_tokens);
}

std::vector<FakeStepPart> FakeEngine::checked_parts(std::span<const StepInput> inputs) {
  EXPECT_FALSE(inputs.empty());
  std::set<SequenceId> seen;
  std::vector<FakeStepPart> parts;
  std::int64_t num_tokens = 0, num_rows = 0;
  for (const StepInput& input : inputs) {
    const std::int64_t count = std::ssize(input.tokens), start = length(input.sequence);
    EXPECT_TRUE(seen.insert(input.sequence).second) << "a sequence twice in a step";
    EXPECT_LE(1, count);
    EXPECT_FALSE(find(input.sequence).spoilt);
    EXPECT_LE(start + count, paging_->reserved(input.sequence)) << "step without reserve";
    for (const TokenId token : input.tokens) EXPECT_TRUE(token >= 0 && token < kFakeVocab);
    num_tokens += count;
    num_rows += input.wanted == WantedLogits::kAll ? count : input.wanted == WantedLogits::kLast ? 1 : 0;
    parts.push_back({input.sequence, start, count, input.wanted});
  }
  EXPECT_LE(num_tokens, options_.max_batch_tokens);
  EXPECT_LE(num_rows, options_.max_logit_rows);
  return parts;
}

Result<StepOutput> FakeEngine::step(std::span<const StepInput> inputs) {
  const std::vector<FakeStepPart> parts = checked_parts(inputs);
  const std::string fault = on_step ? on_step(parts) : "";
  if (!fault.empty()) {
    for (const StepInput& input : inputs) find(input.sequence).spoilt = true;
    return Failure{fault};
  }

  logits_.resize(static_cast<std::size_t>(options_.max_logit_rows) * kFakeVocab);
  std::int64_t num_rows = 0;
  for (const StepInput& input : inputs) {
    Sequence& sequence = find(input.sequence);
    sequence.undoable_from = length(input.sequence);
    sequence.stepped = true;
    sequence.drafts.clear();
    for (std::size_t i = 0; i < input.tokens.size(); ++i) {
      sequence.histories.push_back(after(sequence.history(), input.tokens[i]));
      if (input.wanted == WantedLogits::kNone) continue;
      if (input.wanted == WantedLogits::kLast && i + 1 < input.tokens.size()) continue;
      fake_logits(sequence.history(), {logits_.data() + num_rows++ * kFakeVocab, kFakeVocab});
    }
    paging_->commit(input.sequence, input.tokens);
  }
  std::vector<SampleRow> draws;
  for (const StepInput& input : inputs) draws.insert(draws.end(), input.draws.begin(), input.draws.end());
  EXPECT_TRUE(draws.empty() || options_.chooses);
  if (num_rows > 0 && std::ssize(draws) == num_rows) return StepOutput{.chosen = choose(draws)};
  return StepOutput{.logits = {logits_.data(), {num_rows, kFakeVocab}}};
}

std::span<const TokenId> FakeEngine::choose(std::span<const SampleRow> draws) {
  chosen_.resize(draws.size());
  sample_ref({.logits = {logits_.data(), {std::ssize(draws), kFakeVocab}}, .rows = draws, .ids = chosen_});
  num_chosen += std::ssize(draws);
  return chosen_;
}

void FakeEngine::truncate(SequenceId id, std::int64_t length_left) {
  Sequence& sequence = find(id);
  EXPECT_LE(length_left, length(id));
  EXPECT_LE(length(id) - length_left, options_.pools.max_draft_tokens);
  EXPECT_LE(sequence.undoable_from, length_left) << "truncated to before the last step";
  paging_->truncate(id, length_left);
  sequence.histories.resize(static_cast<std::size_t>(length_left));
}

Result<DraftOutput> FakeEngine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  EXPECT_LT(depth, options_.pools.max_draft_tokens);
  EXPECT_LE(std::ssize(inputs), std::min(options_.max_batch_tokens, options_.max_logit_rows));
  if (drafts_fail) return failure("the MTP block made a NaN");
  logits_.resize(static_cast<std::size_t>(options_.max_logit_rows) * kFakeVocab);
  float* row = logits_.data();
  for (const DraftInput& input : inputs) {
    Sequence& sequence = find(input.sequence);
    EXPECT_TRUE(sequence.stepped) << "drafts follow a step";
    EXPECT_LE(length(input.sequence) + depth + 1, paging_->reserved(input.sequence))
        << "draft without reserve";
    if (depth == 0) sequence.drafts.clear();
    EXPECT_EQ(std::ssize(sequence.drafts), depth) << "a chain has no holes";
    sequence.drafts.push_back(input.token);
    const History history = after(sequence.history(), sequence.drafts);
    const bool knows = fake_chance(history, ~std::uint64_t{0}) < options_.draft_quality;
    fake_logits(knows ? history : ~history, {row, kFakeVocab});
    row += kFakeVocab;
  }
  std::vector<SampleRow> draws;
  for (const DraftInput& input : inputs) {
    if (input.draw) draws.push_back(*input.draw);
  }
  if (draws.size() == inputs.size()) return DraftOutput{.chosen = choose(draws)};
  return DraftOutput{.logits = {logits_.data(), {std::ssize(inputs), kFakeVocab}}};
}

void FakeEngine::share(SequenceId id) {
  EXPECT_FALSE(find(id).spoilt);
  paging_->share(id);
}

void FakeEngine::close(SequenceId id, bool keep) {
  EXPECT_FALSE(keep && find(id).spoilt) << "a spoilt sequence must not be kept";
  sequences_.erase(id);
  paging_->close(id, keep);
}

CacheUse FakeEngine::cache_use() const {
  const CacheUse use = paging_->cache_use();
  for (const PoolUse& pool : {use.pages, use.window_pages, use.state_slots}) {
    EXPECT_EQ(pool.free + pool.cached + pool.in_use, pool.total);
  }
  return use;
}

}  // namespace baleen
