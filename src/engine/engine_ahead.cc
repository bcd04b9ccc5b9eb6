// Steps begun ahead: while the host looks at what one step chose, the next runs already, fed on the device
// with those choices.

#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"
#include "ops/sample/sample.h"
#include "tensor/chosen_token.h"

namespace baleen {

static_assert(StepEngine::kMaxQueued == StepReplay::kNumMarks);

std::span<TokenId> Engine::choices(std::size_t place) const {
  const auto num_rows = static_cast<std::size_t>(options_.max_logit_rows);
  return std::span(reinterpret_cast<TokenId*>(queued_choices_.data()), kMaxQueued * num_rows)
      .subspan(place * num_rows, num_rows);
}

std::int64_t most_drafts(std::span<const StepInput> inputs) {
  std::int64_t most = 0;
  for (const StepInput& input : inputs) most = std::max(most, input.num_drafts);
  return most;
}

std::optional<std::int64_t> Engine::choice_of(SequenceId sequence) const {
  if (under_way_.empty()) return std::nullopt;
  const auto part = std::ranges::find(under_way_.back().parts, sequence, &QueuedPart::sequence);
  if (part == under_way_.back().parts.end() || part->num_choices == 0) return std::nullopt;
  return part->first_choice + part->num_choices - 1;
}

std::optional<Failure> Engine::queue(std::span<const StepInput> inputs) {
  BALEEN_CHECK(rank_.is_alone());
  if (auto wrong = prepare(inputs)) return wrong;
  begin(inputs, most_drafts(inputs));
  return std::nullopt;
}

void Engine::begin(std::span<const StepInput> inputs, std::int64_t num_links) {
  BALEEN_CHECK(limits().queues);
  BALEEN_CHECK_LT(under_way_.size(), limits().runs_ahead ? kMaxQueued : 1);
  improve_placement();
  lay_out(inputs);
  QueuedStep step{.place = num_queued_ % kMaxQueued};
  // Of the step before, or, where none is under way, of the drafts.
  const std::span<TokenId> earlier = choices((num_queued_ + 1) % kMaxQueued);
  std::vector<std::vector<std::int64_t>> drafts = queue_drafts(inputs, num_links, earlier);
  std::vector<SampleRow> draws;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const StepInput& input = inputs[i];
    BALEEN_CHECK(input.wanted == WantedLogits::kNone || !input.draws.empty());
    BALEEN_CHECK(input.num_drafts == 0 || input.wanted == WantedLogits::kLast);
    const std::int64_t begin = sequences_.length(input.sequence);
    const auto first_draft = slices_[i].first_row + std::ssize(input.tokens);
    for (std::size_t d = 0; d < drafts[i].size(); ++d)
      tokens_[static_cast<std::size_t>(first_draft) + d] = chosen_token(drafts[i][d]);
    step.parts.push_back({.sequence = input.sequence,
                          .begin = begin,
                          .end = begin + slices_[i].num_tokens,
                          .first_choice = std::ssize(draws),
                          .num_choices = std::ssize(input.draws),
                          .source = std::nullopt,
                          .drafts = std::move(drafts[i])});
    draws.insert(draws.end(), input.draws.begin(), input.draws.end());
    if (input.tokens.front() != kNoToken) continue;
    step.parts.back().source = choice_of(input.sequence);
    tokens_[static_cast<std::size_t>(slices_[i].first_row)] = chosen_token(*step.parts.back().source);
  }
  step.num_choices = std::ssize(draws);
  const ConstActivations<3> kept = forward_.run({.tokens = tokens_, .slices = slices_}, earlier);
  const ConstActivations<3> streams = all_rows(kept);
  const Activations<2> logits = last_logits(streams);
  if (!draws.empty()) {
    device_->execute<ops::Sample>(
        {.logits = logits, .rows = draws, .ids = choices(step.place).first(draws.size())});
  }
  device_->steps().set_mark(static_cast<int>(step.place));
  if (draft_head_) static_cast<void>(follow(inputs, streams, earlier));
  for (const StepInput& input : inputs) {
    std::vector<TokenId> fed(input.tokens.begin(), input.tokens.end());
    fed.resize(fed.size() + static_cast<std::size_t>(input.num_drafts), kNoToken);
    sequences_.extend(input.sequence, fed);
  }
  under_way_.push_back(std::move(step));
  ++num_queued_;
}

Result<StepOutput> Engine::collect() {
  BALEEN_CHECK(!under_way_.empty());
  const QueuedStep step = std::move(under_way_.front());
  under_way_.pop_front();
  device_->steps().wait_for(static_cast<int>(step.place));
  check_reads();
  const auto chosen = choices(step.place).first(static_cast<std::size_t>(step.num_choices));
  host_chosen_.assign(chosen.begin(), chosen.end());
  const auto is_open = [&](const QueuedPart& part) { return sequences_.contains(part.sequence); };
  take_drafts(step);
  const auto has_numbers = [&](const QueuedPart& part) {
    const auto own = chosen.subspan(static_cast<std::size_t>(part.first_choice),
                                    static_cast<std::size_t>(part.num_choices));
    return std::ranges::find(own, kNoToken) == own.end();
  };
  for (const QueuedPart& part : step.parts) {
    if (!is_open(part) || has_numbers(part)) continue;
    if (!rank_.is_alone()) return baleen::not_numbers(config(), std::nullopt);
    lay_out(step);
    return not_numbers();
  }
  for (const QueuedPart& part : step.parts) {
    if (!is_open(part)) continue;
    if (draft_head_) clear_due_rows(part.sequence, part.end);
    sequences_.settle(part.sequence, part.end);
  }
  if (!under_way_.empty()) {
    for (const QueuedPart& part : under_way_.front().parts) {
      if (!part.source || !is_open(part)) continue;
      sequences_.name(part.sequence, part.begin, host_chosen_[static_cast<std::size_t>(*part.source)]);
    }
  }
  return StepOutput{.chosen = host_chosen_, .drafted = host_drafted_};
}

void Engine::take_drafts(const QueuedStep& step) {
  host_drafted_.clear();
  const std::span<const TokenId> drafted = choices((step.place + 1) % kMaxQueued);
  for (const QueuedPart& part : step.parts) {
    std::int64_t position = part.end - std::ssize(part.drafts);
    for (const std::int64_t place : part.drafts) {
      const TokenId token = drafted[static_cast<std::size_t>(place)];
      host_drafted_.push_back(token);
      // The step ran over token 0 where there is none.
      if (sequences_.contains(part.sequence)) sequences_.name(part.sequence, position++, std::max(token, 0));
    }
  }
}

void Engine::lay_out(const QueuedStep& step) {
  tokens_.clear();
  slices_.clear();
  wanted_rows_.clear();
  for (const QueuedPart& part : step.parts) {
    if (!sequences_.contains(part.sequence)) continue;
    const auto first_row = std::ssize(tokens_);
    const std::int64_t num_tokens = part.end - part.begin;
    const auto tokens =
        sequences_.tokens(part.sequence)
            .subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(num_tokens));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    slices_.push_back(sequences_.slice(part.sequence, first_row, num_tokens));
    slices_.back().start = part.begin;
    for (std::int64_t i = num_tokens - part.num_choices; i < num_tokens; ++i)
      wanted_rows_.push_back(first_row + i);
  }
}

}  // namespace baleen
