// Steps and drafts of several ranks: split by group, run by all, put together again.

#include <algorithm>

#include "base/check.h"
#include "engine/finite_values.h"
#include "engine/step_inputs.h"
#include "rank_engine/rank_engine.h"

namespace baleen {
namespace {

/// Appends the next `count` rows of `from`, and moves past them.
void take_rows(const ConstActivations<2>& from, std::int64_t& next, std::int64_t count,
               std::vector<float>& to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span<const float> row = from.row(next++);
    to.insert(to.end(), row.begin(), row.end());
  }
}

/// The same of single values.
template <class Value>
void take_values(std::span<const Value> from, std::int64_t& next, std::int64_t count,
                 std::vector<Value>& to) {
  const auto part = from.subspan(static_cast<std::size_t>(next), static_cast<std::size_t>(count));
  to.insert(to.end(), part.begin(), part.end());
  next += count;
}

}  // namespace

template <class Input>
std::vector<std::vector<Input>> RankEngine::by_group(std::span<const Input> inputs) const {
  std::vector<std::vector<Input>> groups(static_cast<std::size_t>(num_groups()));
  for (const Input& input : inputs) {
    const Sequence& sequence = sequences_.at(input.sequence);
    std::vector<Input>& group = groups[static_cast<std::size_t>(sequence.group)];
    group.push_back(input);
    group.back().sequence = sequence.own;
  }
  return groups;
}

template <class Input>
void RankEngine::send_states_of(std::span<const Input> inputs) {
  if (options_.parallel.prefill_groups == 0) return;
  std::vector<SequenceId> ids;
  for (const Input& input : inputs) ids.push_back(input.sequence);
  send_states(ids);
}

Result<DecoderUse> RankEngine::prepare(const calls::ByGroup<StepInput>& groups) {
  const std::vector<RankReply>& replies = team_->call({calls::Prepare{.inputs = groups}});
  if (auto failed = first_failure(replies)) return std::move(*failed);
  DecoderUse use;
  for (const RankReply& reply : replies) use |= reply.to<calls::Prepare>();
  return use;
}

Result<StepOutput> RankEngine::step(std::span<const StepInput> inputs) {
  if (inputs.empty()) {
    return failure("a step of 0 tokens: this engine takes 1 to {}", options_.max_batch_tokens);
  }
  balance_experts();
  send_states_of(inputs);
  const calls::ByGroup<StepInput> groups = by_group(inputs);
  const Result<DecoderUse> use = prepare(groups);
  if (!use) return Failure{use.error()};
  const std::vector<RankReply>& replies = team_->call({calls::Compute{.inputs = groups, .use = use.value()}});
  if (first_failure(replies)) return failure_of_step(replies);
  const StepOutput output = merge(parts_of(inputs), rows_of_groups<calls::Compute>(replies));
  static_cast<void>(team_->call({calls::Commit{.inputs = groups}}));
  for (const StepInput& input : inputs) {
    Sequence& sequence = sequences_.at(input.sequence);
    sequence.length += std::ssize(input.tokens);
    sequence.prompt_ended |= input.wanted != WantedLogits::kNone && sequence.length >= sequence.prompt_tokens;
    sequence.was_sent = false;
  }
  return output;
}

Failure RankEngine::failure_of_step(const std::vector<RankReply>& replies) {
  Failure first = *first_failure(replies);
  // Of the draft head there is no more to say.
  if (first.message != not_numbers(config(), std::nullopt).message) return first;
  std::optional<std::int64_t> bad_block;
  for (const RankReply& reply : team_->call({calls::FindBadBlock{}})) {
    const std::optional<std::int64_t> block = reply.to<calls::FindBadBlock>().block;
    if (block) bad_block = std::min(bad_block.value_or(*block), *block);
  }
  return not_numbers(config(), bad_block);
}

std::vector<RankEngine::Part> RankEngine::parts_of(std::span<const StepInput> inputs) const {
  std::vector<Part> parts;
  for (const StepInput& input : inputs) {
    const Sequence& sequence = sequences_.at(input.sequence);
    const bool all = input.wanted == WantedLogits::kAll;
    const std::int64_t num_tokens = std::ssize(input.tokens);
    Part part{.group = sequence.group,
              .num_chosen = std::ssize(input.draws),
              .num_drafted = input.num_drafts,
              .num_confidences = input.num_drafts};
    if (input.draws.empty() && input.wanted != WantedLogits::kNone) part.num_logits = all ? num_tokens : 1;
    // Of a sequence's first step the draft head has a row less (DraftHead::follow).
    if (options_.drafts && all && input.wants_draft_logits)
      part.num_draft_logits = num_tokens - (sequence.length > sequence.opened_at ? 0 : 1);
    parts.push_back(part);
  }
  return parts;
}

template <class Call>
std::vector<calls::StepRows> RankEngine::rows_of_groups(const std::vector<RankReply>& replies) const {
  std::vector<calls::StepRows> rows;
  for (std::int64_t group = 0; group < num_groups(); ++group)
    rows.push_back(reply_of(replies, group).template to<Call>());
  return rows;
}

StepOutput RankEngine::merge(std::span<const Part> parts, std::span<const calls::StepRows> groups) {
  chosen_.clear();
  drafted_.clear();
  confidence_.clear();
  if (num_groups() == 1) {
    const calls::StepRows& reply = groups.front();
    chosen_.assign(reply.chosen.begin(), reply.chosen.end());
    drafted_.assign(reply.drafted.begin(), reply.drafted.end());
    confidence_.assign(reply.confidence.begin(), reply.confidence.end());
    // The reply's logits stay where they are; the reply itself ends with the next call.
    return {.logits = reply.logits,
            .chosen = chosen_,
            .drafted = drafted_,
            .confidence = confidence_,
            .draft_logits = reply.draft_logits};
  }
  std::vector<Part> next(static_cast<std::size_t>(num_groups()));  // what of each group was taken
  logits_.clear();
  draft_logits_.clear();
  for (const Part& part : parts) {
    const calls::StepRows& reply = groups[static_cast<std::size_t>(part.group)];
    Part& place = next[static_cast<std::size_t>(part.group)];
    take_rows(reply.logits, place.num_logits, part.num_logits, logits_.values);
    if (!reply.draft_logits.empty())  // not every head has logits of a step's rows
      take_rows(reply.draft_logits, place.num_draft_logits, part.num_draft_logits, draft_logits_.values);
    take_values(reply.chosen, place.num_chosen, part.num_chosen, chosen_);
    take_values(reply.drafted, place.num_drafted, part.num_drafted, drafted_);
    if (!reply.confidence.empty())  // not every head tells it
      take_values(reply.confidence, place.num_confidences, part.num_confidences, confidence_);
  }
  const std::int64_t vocab_size = config().vocab_size;
  return {.logits = logits_.rows(vocab_size),
          .chosen = chosen_,
          .drafted = drafted_,
          .confidence = confidence_,
          .draft_logits = draft_logits_.rows(vocab_size)};
}

std::optional<Failure> RankEngine::queue(std::span<const StepInput> inputs) {
  balance_experts();
  calls::ByGroup<StepInput> groups = by_group(inputs);
  const Result<DecoderUse> use = prepare(groups);
  if (!use) return Failure{use.error()};
  under_way_.push_back(parts_of(inputs));
  static_cast<void>(team_->call(
      {calls::Begin{.inputs = std::move(groups), .num_links = most_drafts(inputs), .use = use.value()}}));
  for (const StepInput& input : inputs)
    sequences_.at(input.sequence).length += std::ssize(input.tokens) + input.num_drafts;
  return std::nullopt;
}

Result<StepOutput> RankEngine::collect() {
  BALEEN_CHECK(!under_way_.empty());
  const std::vector<Part> parts = std::move(under_way_.front());
  under_way_.pop_front();
  const std::vector<RankReply>& replies = team_->call({calls::Collect{}});
  if (auto failed = first_failure(replies)) return std::move(*failed);
  return merge(parts, rows_of_groups<calls::Collect>(replies));
}

Result<DraftOutput> RankEngine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  if (depth == 0) send_states_of(inputs);
  calls::ByGroup<DraftInput> groups = by_group(inputs);
  const RankCall check{calls::CheckDrafts{.inputs = groups, .depth = depth}};
  if (auto failed = first_failure(team_->call(check))) return std::move(*failed);
  const std::vector<RankReply>& replies =
      team_->call({calls::Draft{.inputs = std::move(groups), .depth = depth}});
  if (auto failed = first_failure(replies)) return std::move(*failed);
  std::vector<Part> parts;
  for (const DraftInput& input : inputs) {
    Part part{.group = group_of(input.sequence), .num_confidences = 1};
    (input.draw ? part.num_chosen : part.num_logits) = 1;
    parts.push_back(part);
  }
  const StepOutput output = merge(parts, rows_of_groups<calls::Draft>(replies));
  return DraftOutput{.logits = output.logits, .chosen = output.chosen, .confidence = output.confidence};
}

}  // namespace baleen
