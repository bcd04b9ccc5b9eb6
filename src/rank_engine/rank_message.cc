#include "rank_engine/rank_message.h"

#include "base/message_bytes.h"

namespace baleen {
namespace {

void write_rows(MessageWriter& out, const ConstActivations<2>& rows) {
  out.value(rows.empty() ? std::int64_t{0} : rows.extent(1));
  out.array(
      std::span<const float>(rows.empty() ? nullptr : rows.data(), static_cast<std::size_t>(rows.size())));
}

ConstActivations<2> read_rows(MessageReader& in, std::vector<float>& storage) {
  const auto width = in.value<std::int64_t>();
  storage = in.array<float>();
  if (storage.empty() || width <= 0) return {};
  return {storage.data(), {std::ssize(storage) / width, width}};
}

void write_lookup(MessageWriter& out, const PrefixLookup& lookup) {
  out.value(lookup.end);
  out.value(lookup.prompt_tokens);
  out.value(lookup.found_tokens);
  out.value(lookup.first_difference);
  out.value(lookup.lost_tokens);
  out.array(std::span<const TokenId>(lookup.cached_tokens));
}

PrefixLookup read_lookup(MessageReader& in) {
  PrefixLookup lookup;
  lookup.end = in.value<PrefixEnd>();
  lookup.prompt_tokens = in.value<std::int64_t>();
  lookup.found_tokens = in.value<std::int64_t>();
  lookup.first_difference = in.value<std::int64_t>();
  lookup.lost_tokens = in.value<std::int64_t>();
  lookup.cached_tokens = in.array<TokenId>();
  return lookup;
}

}  // namespace

std::vector<std::byte> to_bytes(const RankCall& call) {
  MessageWriter out;
  out.value(call.kind);
  out.value(call.group);
  out.value(call.sequence);
  out.value(call.number);
  out.value(call.keep);
  out.array(call.tokens);
  out.value(std::ssize(call.inputs));
  for (const std::vector<StepInput>& group : call.inputs) {
    out.value(std::ssize(group));
    for (const StepInput& input : group) {
      out.value(input.sequence);
      out.value(input.wanted);
      out.value(input.wants_mtp_logits);
      out.value(input.num_drafts);
      out.array(input.tokens);
      out.array(input.draws);
    }
  }
  out.value(std::ssize(call.drafts));
  for (const std::vector<DraftInput>& group : call.drafts) {
    out.value(std::ssize(group));
    for (const DraftInput& input : group) {
      out.value(input.sequence);
      out.value(input.token);
      out.value(input.draw.has_value());
      if (input.draw) out.value(*input.draw);
    }
  }
  out.value(std::ssize(call.experts));
  for (const BlockExperts& one : call.experts) {
    out.value(one.block);
    out.array(std::span<const std::int32_t>(one.slots));
  }
  out.array(std::span<const SequenceTransfer>(call.transfers));
  return out.take();
}

ReceivedCall call_from_bytes(std::span<const std::byte> bytes) {
  MessageReader in(bytes);
  ReceivedCall received;
  RankCall& call = received.call;
  const auto tokens = [&] {
    return std::span<const TokenId>(received.tokens.emplace_back(in.array<TokenId>()));
  };
  call.kind = in.value<RankCall::Kind>();
  call.group = in.value<std::int64_t>();
  call.sequence = in.value<SequenceId>();
  call.number = in.value<std::int64_t>();
  call.keep = in.value<bool>();
  call.tokens = tokens();
  call.inputs.resize(static_cast<std::size_t>(in.count()));
  for (std::vector<StepInput>& group : call.inputs) {
    group.resize(static_cast<std::size_t>(in.count()));
    for (StepInput& input : group) {
      input.sequence = in.value<SequenceId>();
      input.wanted = in.value<WantedLogits>();
      input.wants_mtp_logits = in.value<bool>();
      input.num_drafts = in.value<std::int64_t>();
      input.tokens = tokens();
      input.draws = received.draws.emplace_back(in.array<SampleRow>());
    }
  }
  call.drafts.resize(static_cast<std::size_t>(in.count()));
  for (std::vector<DraftInput>& group : call.drafts) {
    group.resize(static_cast<std::size_t>(in.count()));
    for (DraftInput& input : group) {
      input.sequence = in.value<SequenceId>();
      input.token = in.value<TokenId>();
      if (in.value<bool>()) input.draw = in.value<SampleRow>();
    }
  }
  call.experts.resize(static_cast<std::size_t>(in.count()));
  for (BlockExperts& one : call.experts) {
    one.block = in.value<std::int64_t>();
    one.slots = in.array<std::int32_t>();
  }
  call.transfers = in.array<SequenceTransfer>();
  return received;
}

std::vector<std::byte> to_bytes(const RankReply& reply) {
  MessageWriter out;
  out.value(reply.number);
  out.value(reply.failure.has_value());
  if (reply.failure) out.text(*reply.failure);
  write_rows(out, reply.logits);
  write_rows(out, reply.mtp_logits);
  out.array(reply.chosen);
  out.array(reply.drafted);
  out.value(reply.cache_use);
  write_lookup(out, reply.lookup);
  out.array(std::span<const RadixNodeSummary>(reply.tree));
  out.value(std::ssize(reply.expert_load));
  for (const std::vector<std::int64_t>& row : reply.expert_load)
    out.array(std::span<const std::int64_t>(row));
  out.value(reply.expert_places.has_value());
  if (reply.expert_places) out.value(*reply.expert_places);
  out.value(std::ssize(reply.refusals));
  for (const std::string& refusal : reply.refusals) out.text(refusal);
  return out.take();
}

ReceivedReply reply_from_bytes(std::span<const std::byte> bytes) {
  MessageReader in(bytes);
  ReceivedReply received;
  RankReply& reply = received.reply;
  reply.number = in.value<std::int64_t>();
  if (in.value<bool>()) reply.failure = in.text();
  reply.logits = read_rows(in, received.logits);
  reply.mtp_logits = read_rows(in, received.mtp_logits);
  reply.chosen = received.chosen = in.array<TokenId>();
  reply.drafted = received.drafted = in.array<TokenId>();
  reply.cache_use = in.value<CacheUse>();
  reply.lookup = read_lookup(in);
  reply.tree = in.array<RadixNodeSummary>();
  reply.expert_load.resize(static_cast<std::size_t>(in.count()));
  for (std::vector<std::int64_t>& row : reply.expert_load) row = in.array<std::int64_t>();
  if (in.value<bool>()) reply.expert_places = in.value<ExpertPlaceStats>();
  reply.refusals.resize(static_cast<std::size_t>(in.count()));
  for (std::string& refusal : reply.refusals) refusal = in.text();
  return received;
}

}  // namespace baleen
