#include "rank_engine/rank_call.h"

#include <utility>

namespace baleen {
namespace {

/// A group that the caller has nothing for takes part without rows.
template <class Input>
std::span<const Input> of_group(const std::vector<std::vector<Input>>& groups, const Engine& engine) {
  const auto group = static_cast<std::size_t>(engine.layout().dp_index());
  return group < groups.size() ? std::span<const Input>(groups[group]) : std::span<const Input>();
}

template <class Output>
RankReply reply_of(const Engine& engine, const Result<Output>& output) {
  if (!output) return {.failure = output.error()};
  RankReply reply;
  if (engine.layout().group_index() > 0) return reply;  // the first rank of the group says it
  reply.logits = output.value().logits;
  reply.chosen = output.value().chosen;
  if constexpr (requires { output.value().mtp_logits; }) {
    reply.mtp_logits = output.value().mtp_logits;
    reply.drafted = output.value().drafted;
  }
  return reply;
}

RankReply reply_of(std::optional<Failure> failed) {
  RankReply reply;
  if (failed) reply.failure = std::move(failed->message);
  return reply;
}

RankReply transfer(StateTransfers& states, std::span<const SequenceTransfer> transfers) {
  RankReply reply;
  const std::int64_t bytes_before = states.received_bytes();
  for (const SequenceTransfer& one : transfers) {
    const std::optional<Failure> refusal = states.exchange(one);
    reply.refusals.push_back(refusal ? refusal->message : "");
  }
  reply.number = states.received_bytes() - bytes_before;
  return reply;
}

}  // namespace

bool is_collective(RankCall::Kind kind) {
  using Kind = RankCall::Kind;
  return kind == Kind::kCompute || kind == Kind::kFindBadBlock || kind == Kind::kDraft ||
         kind == Kind::kTransfer || kind == Kind::kBegin || kind == Kind::kCollect ||
         kind == Kind::kStageExperts;
}

std::optional<Failure> first_failure(const std::vector<RankReply>& replies) {
  for (const RankReply& reply : replies) {
    if (reply.failure) return Failure{*reply.failure};
  }
  return std::nullopt;
}

RankReply answer(Engine& engine, const RankCall& call) {
  using Kind = RankCall::Kind;
  switch (call.kind) {
    case Kind::kCachedTokens:
      return {.number = engine.cached_tokens(call.tokens)};
    case Kind::kOpen: {
      const std::optional<SequenceId> opened = engine.open(call.tokens);
      return {.number = opened ? static_cast<std::int64_t>(*opened) : -1};
    }
    case Kind::kKeepTail:
      engine.keep_tail(call.sequence, call.number);
      return {};
    case Kind::kLookup:
      return {.lookup = engine.lookup(call.sequence)};
    case Kind::kLength:
      return {.number = engine.length(call.sequence)};
    case Kind::kReserve:
      return {.number = engine.reserve(call.sequence, call.number) ? 1 : 0};
    case Kind::kTruncate:
      engine.truncate(call.sequence, call.number);
      return {};
    case Kind::kShare:
      engine.share(call.sequence);
      return {};
    case Kind::kClose:
      engine.close(call.sequence, call.keep);
      return {};
    case Kind::kPrepare:
      return reply_of(engine.prepare(of_group(call.inputs, engine)));
    case Kind::kCompute:
      return reply_of(engine, engine.compute(of_group(call.inputs, engine)));
    case Kind::kFindBadBlock:
      return {.number = engine.first_bad_block().value_or(-1)};
    case Kind::kCommit:
      engine.commit(of_group(call.inputs, engine));
      return {};
    case Kind::kBegin:
      engine.begin(of_group(call.inputs, engine), call.number);
      return {};
    case Kind::kCollect:
      return reply_of(engine, engine.collect());
    case Kind::kCheckDrafts:
      return reply_of(engine.check_drafts(of_group(call.drafts, engine), call.number));
    case Kind::kDraft:
      return reply_of(engine, engine.draft(of_group(call.drafts, engine), call.number));
    case Kind::kCacheUse:
      return {.cache_use = engine.cache_use()};
    case Kind::kTree:
      return {.tree = engine.tree(static_cast<std::size_t>(call.number))};
    case Kind::kExpertLoad:
      return {.expert_load = engine.expert_load()};
    case Kind::kExpertPlaces:
      return {.expert_places = engine.expert_places()};
    case Kind::kStageExperts:
      return reply_of(engine.stage_experts(call.experts));
    case Kind::kPlaceExperts:
      engine.place_experts();
      return {};
    case Kind::kDropExperts:
      engine.drop_experts();
      return {};
    case Kind::kFabricate:
      engine.fabricate_history(call.sequence, call.number);
      return {};
    case Kind::kExpect:
      return {.number = engine.expect(call.sequence, call.number) ? 1 : 0};
    case Kind::kTransfer:
      return transfer(engine.transfers(), call.transfers);
    case Kind::kAdopt:
      engine.transfers().adopt(call.sequence, call.keep);
      return {};
    case Kind::kEnd:
      return {};
  }
  return {};
}

}  // namespace baleen
