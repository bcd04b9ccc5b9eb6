#include "rank_engine/rank_call.h"

#include <utility>

namespace baleen {
namespace {

RankReply reply_of(std::optional<Failure> failed) {
  RankReply reply;
  if (failed) reply.failure = std::move(failed->message);
  return reply;
}

/// One overload for each call.
class Answers {
 public:
  explicit Answers(RankWorker& worker) : worker_(worker) {}

  RankReply operator()(const calls::CachedTokens& call) {
    return {calls::Tokens{worker_.sequences().cached_tokens(call.prompt)}};
  }
  RankReply operator()(const calls::Open& call) {
    return {calls::Opened{worker_.open(call.prompt, call.decoder_begin)}};
  }
  RankReply operator()(const calls::KeepTail& call) {
    worker_.sequences().keep_tail(call.sequence, call.end);
    return {};
  }
  RankReply operator()(const calls::Lookup& call) { return {worker_.sequences().lookup(call.sequence)}; }
  RankReply operator()(const calls::Length& call) {
    return {calls::Tokens{worker_.sequences().length(call.sequence)}};
  }
  RankReply operator()(const calls::Reserve& call) {
    return {calls::Room{worker_.sequences().reserve(call.sequence, call.num_tokens)}};
  }
  RankReply operator()(const calls::Truncate& call) {
    worker_.sequences().truncate(call.sequence, call.length);
    return {};
  }
  RankReply operator()(const calls::Share& call) {
    worker_.sequences().share(call.sequence);
    return {};
  }
  RankReply operator()(const calls::Close& call) {
    worker_.close(call.sequence, call.keep);
    return {};
  }
  RankReply operator()(const calls::Prepare& call) {
    const auto inputs = own(call.inputs);
    if (auto failed = worker_.prepare(inputs)) return reply_of(std::move(failed));
    return {worker_.decoder_use(inputs)};
  }
  RankReply operator()(const calls::Compute& call) {
    return rows_of(worker_.compute(own(call.inputs), call.use));
  }
  RankReply operator()(const calls::Commit& call) {
    worker_.commit(own(call.inputs));
    return {};
  }
  RankReply operator()(const calls::FindBadBlock& /*call*/) {
    return {calls::BadBlock{worker_.first_bad_block()}};
  }
  RankReply operator()(const calls::Begin& call) {
    worker_.begin(own(call.inputs), call.num_links, call.use);
    return {};
  }
  RankReply operator()(const calls::Collect& /*call*/) { return rows_of(worker_.collect()); }
  RankReply operator()(const calls::CheckDrafts& call) {
    return reply_of(worker_.check_drafts(own(call.inputs), call.depth));
  }
  RankReply operator()(const calls::Draft& call) {
    return rows_of(worker_.draft(own(call.inputs), call.depth));
  }
  RankReply operator()(const calls::UseOfCache& /*call*/) { return {worker_.sequences().cache_use()}; }
  RankReply operator()(const calls::Tree& call) {
    return {worker_.sequences().tree(static_cast<std::size_t>(call.most_nodes))};
  }
  RankReply operator()(const calls::ExpertLoad& /*call*/) { return {worker_.expert_load()}; }
  RankReply operator()(const calls::ExpertPlaces& /*call*/) { return {worker_.expert_places()}; }
  RankReply operator()(const calls::StageExperts& call) {
    return reply_of(worker_.stage_experts(call.experts));
  }
  RankReply operator()(const calls::PlaceExperts& /*call*/) {
    worker_.place_experts();
    return {};
  }
  RankReply operator()(const calls::DropExperts& /*call*/) {
    worker_.drop_experts();
    return {};
  }
  RankReply operator()(const calls::Fabricate& call) {
    worker_.fabricate_history(call.sequence, call.num_positions);
    return {};
  }
  RankReply operator()(const calls::Expect& call) {
    return {calls::Room{worker_.sequences().expect(call.sequence, call.end)}};
  }
  RankReply operator()(const calls::Transfer& call) {
    StateTransfers& states = worker_.transfers();
    calls::Transferred done;
    const std::int64_t bytes_before = states.received_bytes();
    for (const SequenceTransfer& one : call.transfers) {
      const std::optional<Failure> refusal = states.exchange(one);
      done.refusals.push_back(refusal ? refusal->message : "");
    }
    done.num_bytes = states.received_bytes() - bytes_before;
    return {std::move(done)};
  }
  RankReply operator()(const calls::Adopt& call) {
    worker_.transfers().adopt(call.sequence, call.with_streams);
    return {};
  }
  RankReply operator()(const calls::End& /*call*/) { return {}; }

 private:
  /// A group that the caller has nothing for takes part without rows.
  template <class Input>
  std::span<const Input> own(const calls::ByGroup<Input>& groups) const {
    const auto group = static_cast<std::size_t>(worker_.layout().dp_index());
    return group < groups.size() ? std::span<const Input>(groups[group]) : std::span<const Input>();
  }

  template <class Output>
  RankReply rows_of(const Result<Output>& output) const {
    if (!output) return {.failure = output.error()};
    calls::StepRows rows;
    if (worker_.layout().group_index() > 0) return {rows};  // the first rank of the group says it
    rows.logits = output.value().logits;
    rows.chosen = output.value().chosen;
    rows.confidence = output.value().confidence;
    if constexpr (requires { output.value().draft_logits; }) {
      rows.draft_logits = output.value().draft_logits;
      rows.drafted = output.value().drafted;
    }
    return {rows};
  }

  RankWorker& worker_;
};

}  // namespace

std::optional<Failure> first_failure(const std::vector<RankReply>& replies) {
  for (const RankReply& reply : replies) {
    if (reply.failure) return Failure{*reply.failure};
  }
  return std::nullopt;
}

RankReply answer(RankWorker& worker, const RankCall& call) { return std::visit(Answers(worker), call.what); }

}  // namespace baleen
