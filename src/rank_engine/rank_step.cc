// Steps and drafts of several ranks: split by group, run by all, put together again.

#include <algorithm>

#include "base/check.h"
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

std::optional<Failure> first_failure(const std::vector<RankReply>& replies) {
  for (const RankReply& reply : replies) {
    if (reply.failure) return Failure{*reply.failure};
  }
  return std::nullopt;
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

Result<StepOutput> RankEngine::step(std::span<const StepInput> inputs) {
  if (inputs.empty()) {
    return failure("a step of 0 tokens: this engine takes 1 to {}", options_.max_batch_tokens);
  }
  RankCall call{.kind = RankCall::Kind::kPrepare, .inputs = by_group(inputs)};
  if (auto failed = first_failure(team_->call(call))) return std::move(*failed);
  call.kind = RankCall::Kind::kCompute;
  const std::vector<RankReply>& replies = team_->call(call);
  if (first_failure(replies)) return failure_of_step(replies);
  StepOutput output = merge(inputs, replies);
  call.kind = RankCall::Kind::kCommit;
  static_cast<void>(team_->call(call));
  for (const StepInput& input : inputs) sequences_.at(input.sequence).length += std::ssize(input.tokens);
  return output;
}

Failure RankEngine::failure_of_step(const std::vector<RankReply>& replies) {
  const Failure first = *first_failure(replies);
  // Of the MTP block there is no more to say.
  if (first.message != not_numbers(config(), std::nullopt).message) return first;
  std::optional<std::int64_t> bad_block;
  for (const RankReply& reply : team_->call({.kind = RankCall::Kind::kFindBadBlock})) {
    if (reply.number >= 0) bad_block = std::min(bad_block.value_or(reply.number), reply.number);
  }
  return not_numbers(config(), bad_block);
}

StepOutput RankEngine::merge(std::span<const StepInput> inputs, const std::vector<RankReply>& replies) {
  if (num_groups() == 1) {
    const RankReply& reply = reply_of(replies, 0);
    // The reply's arrays stay where they are; the reply itself ends with the next call.
    return {.logits = reply.logits, .mtp_logits = reply.mtp_logits};
  }
  struct Place {
    std::int64_t logits = 0, mtp_logits = 0;
  };
  std::vector<Place> next(static_cast<std::size_t>(num_groups()));
  logits_.values.clear();
  mtp_logits_.values.clear();
  for (const StepInput& input : inputs) {
    const Sequence& sequence = sequences_.at(input.sequence);
    const RankReply& reply = reply_of(replies, sequence.group);
    Place& place = next[static_cast<std::size_t>(sequence.group)];
    const std::int64_t num_tokens = std::ssize(input.tokens);
    const bool all = input.wanted == WantedLogits::kAll;
    take_rows(reply.logits, place.logits,
              all                                   ? num_tokens
              : input.wanted == WantedLogits::kLast ? 1
                                                    : 0,
              logits_.values);
    if (!options_.mtp || !all || !input.wants_mtp_logits) continue;
    // Without a stream before its first position the block has a row less.
    const std::int64_t num_mtp_rows = num_tokens - (sequence.length > sequence.opened_at ? 0 : 1);
    take_rows(reply.mtp_logits, place.mtp_logits, num_mtp_rows, mtp_logits_.values);
  }
  return {.logits = logits_.rows(config().vocab_size), .mtp_logits = mtp_logits_.rows(config().vocab_size)};
}

Result<DraftOutput> RankEngine::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  RankCall call{.kind = RankCall::Kind::kCheckDrafts, .number = depth, .drafts = by_group(inputs)};
  if (auto failed = first_failure(team_->call(call))) return std::move(*failed);
  call.kind = RankCall::Kind::kDraft;
  const std::vector<RankReply>& replies = team_->call(call);
  if (auto failed = first_failure(replies)) return std::move(*failed);
  if (num_groups() == 1) return DraftOutput{.logits = reply_of(replies, 0).logits};
  std::vector<std::int64_t> next(static_cast<std::size_t>(num_groups()));
  mtp_logits_.values.clear();
  for (const DraftInput& input : inputs) {
    const std::int64_t group = group_of(input.sequence);
    take_rows(reply_of(replies, group).logits, next[static_cast<std::size_t>(group)], 1, mtp_logits_.values);
  }
  return DraftOutput{.logits = mtp_logits_.rows(config().vocab_size)};
}

}  // namespace baleen
