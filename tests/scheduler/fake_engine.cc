#include "tests/scheduler/fake_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

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
          .tells_confidence = options_.tells_confidence,
          .context_tokens = options_.pools.num_pages * kPageTokens,
          .chooses = options_.chooses || options_.queues || options_.runs_ahead,
          .queues = options_.queues || options_.runs_ahead,
          .runs_ahead = options_.runs_ahead};
}

FakeEngine::Sequence& FakeEngine::find(SequenceId sequence) {
  const auto found = sequences_.find(sequence);
  BALEEN_CHECK(found != sequences_.end());
  return found->second;
}

std::optional<SequenceId> FakeEngine::open(std::span<const TokenId> prompt) {
  EXPECT_FALSE(prompt.empty() || must_collect_);
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

void FakeEngine::foresee(SequenceId sequence, std::span<const TokenId> tokens) {
  find(sequence).foreseen.assign(tokens.begin(), tokens.end());
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
    const std::int64_t count = std::ssize(input.tokens) + input.num_drafts, start = length(input.sequence);
    EXPECT_TRUE(seen.insert(input.sequence).second) << "a sequence twice in a step";
    EXPECT_LE(1, count);
    EXPECT_FALSE(find(input.sequence).spoilt);
    EXPECT_LE(start + count, paging_->reserved(input.sequence)) << "step without reserve";
    for (const TokenId token : input.tokens) {
      EXPECT_TRUE((token >= 0 && token < kFakeVocab) ||
                  (token == kNoToken && count == 1 && !under_way_.empty()));
    }
    num_tokens += count;
    num_rows += input.wanted == WantedLogits::kAll    ? count
                : input.wanted == WantedLogits::kLast ? 1 + input.num_drafts
                                                      : 0;
    parts.push_back({input.sequence, start, count, input.wanted});
  }
  EXPECT_LE(num_tokens, options_.max_batch_tokens);
  EXPECT_LE(num_rows, options_.max_logit_rows);
  return parts;
}

Result<StepOutput> FakeEngine::step(std::span<const StepInput> inputs) {
  EXPECT_TRUE(under_way_.empty());
  const std::vector<FakeStepPart> parts = checked_parts(inputs);
  const std::string fault = on_step ? on_step(parts) : "";
  if (!fault.empty()) {
    for (const StepInput& input : inputs) find(input.sequence).spoilt = true;
    return Failure{fault};
  }
  const std::int64_t num_rows = compute(inputs);
  for (const StepInput& input : inputs) paging_->commit(input.sequence, input.tokens);
  std::vector<SampleRow> draws;
  for (const StepInput& input : inputs) draws.insert(draws.end(), input.draws.begin(), input.draws.end());
  EXPECT_TRUE(draws.empty() || limits().chooses);
  const std::int64_t num_draws = std::ssize(draws);
  return StepOutput{.logits = {logits_.data() + num_draws * kFakeVocab, {num_rows - num_draws, kFakeVocab}},
                    .chosen = choose(draws)};
}

std::int64_t FakeEngine::compute(std::span<const StepInput> inputs) {
  logits_.resize(static_cast<std::size_t>(options_.max_logit_rows) * kFakeVocab);
  std::vector<History> chosen, for_the_host;
  for (const StepInput& input : inputs) {
    Sequence& sequence = find(input.sequence);
    sequence.undoable_from = length(input.sequence);
    sequence.stepped = true;
    sequence.drafts.clear();
    const std::vector<TokenId> foreseen = std::exchange(sequence.foreseen, {});
    EXPECT_TRUE(std::ranges::equal(foreseen, input.tokens.first(foreseen.size())));
    if (!foreseen.empty()) ++num_foreseen;
    for (std::size_t i = 0; i < input.tokens.size(); ++i) {
      const bool goes_on = i == 0 && input.tokens[i] == kNoToken;
      const TokenId token = goes_on ? choice_for(input.sequence) : std::max(input.tokens[i], 0);
      sequence.histories.push_back(after(sequence.history(), token));
      if (input.wanted == WantedLogits::kNone) continue;
      if (input.wanted == WantedLogits::kLast && i + 1 < input.tokens.size()) continue;
      (input.draws.empty() ? for_the_host : chosen).push_back(sequence.history());
    }
  }
  chosen.insert(chosen.end(), for_the_host.begin(), for_the_host.end());
  for (std::size_t row = 0; row < chosen.size(); ++row) {
    fake_logits(chosen[row], {logits_.data() + row * kFakeVocab, kFakeVocab});
  }
  return std::ssize(chosen);
}

TokenId FakeEngine::choice_for(SequenceId sequence) const {
  BALEEN_CHECK(!under_way_.empty());
  const QueuedStep& step = under_way_.back();
  const auto part = std::ranges::find(step.parts, sequence, &QueuedPart::sequence);
  BALEEN_CHECK(part != step.parts.end() && part->num_choices > 0);
  return step.chosen[part->first_choice + part->num_choices - 1];
}

std::optional<Failure> FakeEngine::queue(std::span<const StepInput> inputs) {
  EXPECT_TRUE(limits().queues);
  EXPECT_LT(under_way_.size(), options_.runs_ahead ? kMaxQueued : 1);
  const auto drafts = [](const auto& part) { return part.num_drafts > 0; };
  EXPECT_TRUE(under_way_.empty() ||
              (std::ranges::none_of(inputs, drafts) &&
               std::ranges::all_of(under_way_.back().parts,
                                   [](const QueuedPart& part) { return part.chain.drafts.empty(); })))
      << "a step with drafts runs alone";
  const std::vector<FakeStepPart> parts = checked_parts(inputs);
  QueuedStep step{.fault = on_step ? on_step(parts) : ""};
  std::vector<Chain> chains;
  std::vector<std::vector<TokenId>> fed;
  for (const StepInput& input : inputs) {
    chains.push_back(chain(input));
    fed.emplace_back(input.tokens.begin(), input.tokens.end());
    const std::vector<TokenId>& drafted = chains.back().drafts;
    fed.back().insert(fed.back().end(), drafted.begin(), drafted.end());
  }
  std::vector<StepInput> whole(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    whole[i].tokens = fed[i];
    if (!chains[i].drafts.empty()) whole[i].wanted = WantedLogits::kAll;
  }
  const std::int64_t num_rows = compute(whole);
  ++num_queued;
  std::vector<SampleRow> draws;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const StepInput& input = inputs[i];
    const bool goes_on = input.tokens.front() == kNoToken;
    step.parts.push_back({.sequence = input.sequence,
                          .end = length(input.sequence) + std::ssize(fed[i]),
                          .first_choice = draws.size(),
                          .num_choices = input.draws.size(),
                          .goes_on = goes_on,
                          .chain = chains[i]});
    must_collect_ = must_collect_ || goes_on;
    draws.insert(draws.end(), input.draws.begin(), input.draws.end());
    std::fill_n(fed[i].end() - input.num_drafts, input.num_drafts, kNoToken);
    paging_->extend(input.sequence, fed[i]);
  }
  EXPECT_EQ(std::ssize(draws), num_rows) << "a queued step wants logits";
  const auto chosen = choose(draws);
  step.chosen.assign(chosen.begin(), chosen.end());
  num_ahead += std::ssize(under_way_);
  under_way_.push_back(std::move(step));
  return std::nullopt;
}

Result<StepOutput> FakeEngine::collect() {
  BALEEN_CHECK(!under_way_.empty());
  if (on_collect) on_collect();
  must_collect_ = false;
  const QueuedStep step = std::move(under_way_.front());
  under_way_.pop_front();
  drafted_.clear();
  confidence_.clear();
  for (const QueuedPart& part : step.parts) {
    const std::vector<TokenId>& drafts = part.chain.drafts;
    drafted_.insert(drafted_.end(), drafts.begin(), drafts.end());
    if (options_.tells_confidence)
      confidence_.insert(confidence_.end(), part.chain.confidence.begin(), part.chain.confidence.end());
    const auto found = sequences_.find(part.sequence);
    if (found == sequences_.end()) continue;
    for (std::int64_t i = 0; i < std::ssize(drafts); ++i)
      paging_->name(part.sequence, part.end - std::ssize(drafts) + i,
                    std::max(drafts[static_cast<std::size_t>(i)], 0));
    if (!step.fault.empty()) {
      found->second.spoilt = true;
    } else {
      paging_->settle(part.sequence, part.end);
    }
  }
  if (!under_way_.empty() && step.fault.empty()) {
    for (const QueuedPart& next : under_way_.front().parts) {
      if (!next.goes_on || !sequences_.contains(next.sequence)) continue;
      const auto part = std::ranges::find(step.parts, next.sequence, &QueuedPart::sequence);
      paging_->name(next.sequence, next.end - 1, step.chosen[part->first_choice + part->num_choices - 1]);
    }
  }
  if (!step.fault.empty()) return Failure{step.fault};
  chosen_ = step.chosen;
  return StepOutput{.chosen = chosen_, .drafted = drafted_, .confidence = confidence_};
}

FakeEngine::Chain FakeEngine::chain(const StepInput& input) {
  Chain chain;
  const auto num_drafts = static_cast<std::size_t>(input.num_drafts);
  if (num_drafts == 0) return chain;
  if (drafts_fail)
    return {.drafts = std::vector<TokenId>(num_drafts, kNoToken),
            .confidence = std::vector<float>(num_drafts, 0)};
  EXPECT_LE(input.num_drafts, options_.pools.max_draft_tokens);
  EXPECT_EQ(input.wanted, WantedLogits::kLast);
  Sequence& sequence = find(input.sequence);
  EXPECT_TRUE(sequence.stepped) << "drafts follow a step";
  std::vector<float> logits(kFakeVocab);
  sequence.drafts.assign(1, input.tokens.back());
  for (const SampleRow& draw : input.draws.first(num_drafts)) {
    chain.confidence.push_back(draft_logits(sequence, logits));
    TokenId& guess = chain.drafts.emplace_back();
    sample_ref({.logits = {logits.data(), {1, kFakeVocab}}, .rows = {&draw, 1}, .ids = {&guess, 1}});
    sequence.drafts.push_back(guess);
  }
  return chain;
}

float FakeEngine::draft_logits(const Sequence& sequence, std::span<float> row) const {
  const History history = after(sequence.history(), sequence.drafts);
  const bool knows = fake_chance(history, ~std::uint64_t{0}) < options_.draft_quality;
  fake_logits(knows ? history : ~history, row);
  return knows ? kSure : -kSure;
}

std::span<const TokenId> FakeEngine::choose(std::span<const SampleRow> draws) {
  chosen_.resize(draws.size());
  sample_ref({.logits = {logits_.data(), {std::ssize(draws), kFakeVocab}}, .rows = draws, .ids = chosen_});
  num_chosen += std::ssize(draws);
  return chosen_;
}

void FakeEngine::truncate(SequenceId id, std::int64_t length_left) {
  Sequence& sequence = find(id);
  EXPECT_TRUE(under_way_.empty());
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
  confidence_.clear();
  float* row = logits_.data();
  for (const DraftInput& input : inputs) {
    Sequence& sequence = find(input.sequence);
    EXPECT_TRUE(sequence.stepped) << "drafts follow a step";
    EXPECT_LE(length(input.sequence) + depth + 1, paging_->reserved(input.sequence))
        << "draft without reserve";
    if (depth == 0) sequence.drafts.clear();
    EXPECT_EQ(std::ssize(sequence.drafts), depth) << "a chain has no holes";
    sequence.drafts.push_back(input.token);
    confidence_.push_back(draft_logits(sequence, {row, kFakeVocab}));
    row += kFakeVocab;
  }
  std::vector<SampleRow> draws;
  for (const DraftInput& input : inputs) {
    if (input.draw) draws.push_back(*input.draw);
  }
  DraftOutput output;
  if (draws.size() == inputs.size()) {
    output.chosen = choose(draws);
  } else {
    output.logits = {logits_.data(), {std::ssize(inputs), kFakeVocab}};
  }
  if (options_.tells_confidence) output.confidence = confidence_;
  return output;
}

void FakeEngine::share(SequenceId id) {
  EXPECT_FALSE(find(id).spoilt || must_collect_);
  paging_->share(id);
}

void FakeEngine::close(SequenceId id, bool keep) {
  EXPECT_FALSE(must_collect_);
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
