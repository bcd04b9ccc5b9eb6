/// What the driver of several ranks has them do, as a value: described once, executed by all of them in the
/// same order, whether they are threads of a process or processes. A call is a struct with what it needs and
/// the type of its reply; one more is a struct here, a row of `RankCall::What` and its `answer`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.h"
#include "engine/step_engine.h"
#include "moe/placement/expert_maps.h"
#include "moe/residence/expert_store.h"
#include "rank_engine/rank_worker.h"
#include "rank_engine/sequence_transfer.h"

namespace baleen {

namespace calls {

struct Nothing {
  static auto fields(auto& /*self*/) { return std::tie(); }
};
struct Tokens {
  std::int64_t count = 0;
  static auto fields(auto& self) { return std::tie(self.count); }
};
struct Opened {
  std::optional<SequenceId> sequence;
  static auto fields(auto& self) { return std::tie(self.sequence); }
};
struct Room {
  bool found = false;
  static auto fields(auto& self) { return std::tie(self.found); }
};
struct BadBlock {
  std::optional<std::int64_t> block;  ///< number in the whole model
  static auto fields(auto& self) { return std::tie(self.block); }
};
/// Of the group's answering rank; valid until the next collective call.
struct StepRows {
  ConstActivations<2> logits;
  ConstActivations<2> draft_logits;
  std::span<const TokenId> chosen, drafted;
  std::span<const float> confidence;
  static auto fields(auto& self) {
    return std::tie(self.logits, self.draft_logits, self.chosen, self.drafted, self.confidence);
  }
};
struct Transferred {
  std::int64_t num_bytes = 0;         ///< received
  std::vector<std::string> refusals;  ///< one for each transfer; empty: none
  static auto fields(auto& self) { return std::tie(self.num_bytes, self.refusals); }
};

/// Inputs of each group, with the group's numbers of sequences.
template <class Input>
using ByGroup = std::vector<std::vector<Input>>;

/// `kIsCollective`: all ranks must be at it at the same time, because they exchange messages to answer, or
/// should, because each has much to copy.
/// `fields`: what goes over to another process, all members.
template <class ReplyType, bool kCollective = false>
struct Call {
  using Reply = ReplyType;
  static constexpr bool kIsCollective = kCollective;
  static auto fields(auto& /*self*/) { return std::tie(); }
};

/// How many of the prompt's tokens are cached.
struct CachedTokens : Call<Tokens> {
  std::span<const TokenId> prompt;
  static auto fields(auto& self) { return std::tie(self.prompt); }
};
struct Open : Call<Opened> {
  std::span<const TokenId> prompt;
  std::int64_t decoder_begin = 0;
  static auto fields(auto& self) { return std::tie(self.prompt, self.decoder_begin); }
};
struct KeepTail : Call<Nothing> {
  SequenceId sequence{};
  std::int64_t end = 0;
  static auto fields(auto& self) { return std::tie(self.sequence, self.end); }
};
struct Lookup : Call<PrefixLookup> {
  SequenceId sequence{};
  static auto fields(auto& self) { return std::tie(self.sequence); }
};
struct Length : Call<Tokens> {
  SequenceId sequence{};
  static auto fields(auto& self) { return std::tie(self.sequence); }
};
struct Reserve : Call<Room> {
  SequenceId sequence{};
  std::int64_t num_tokens = 0;
  static auto fields(auto& self) { return std::tie(self.sequence, self.num_tokens); }
};
struct Truncate : Call<Nothing> {
  SequenceId sequence{};
  std::int64_t length = 0;
  static auto fields(auto& self) { return std::tie(self.sequence, self.length); }
};
struct Share : Call<Nothing> {
  SequenceId sequence{};
  static auto fields(auto& self) { return std::tie(self.sequence); }
};
struct Close : Call<Nothing> {
  SequenceId sequence{};
  bool keep = false;
  static auto fields(auto& self) { return std::tie(self.sequence, self.keep); }
};
/// With `Compute` and `Commit` a step. Replies what the group's rows ask of the decoder half.
struct Prepare : Call<DecoderUse> {
  ByGroup<StepInput> inputs;
  static auto fields(auto& self) { return std::tie(self.inputs); }
};
struct Compute : Call<StepRows, true> {
  ByGroup<StepInput> inputs;
  DecoderUse use;  ///< what the rows of all groups ask
  static auto fields(auto& self) { return std::tie(self.inputs, self.use); }
};
struct Commit : Call<Nothing> {
  ByGroup<StepInput> inputs;
  static auto fields(auto& self) { return std::tie(self.inputs); }
};
struct FindBadBlock : Call<BadBlock, true> {};
/// After `Prepare`: a step that runs ahead.
struct Begin : Call<Nothing, true> {
  ByGroup<StepInput> inputs;
  std::int64_t num_links = 0;  ///< drafts of an input at most
  DecoderUse use;              ///< what the rows of all groups ask
  static auto fields(auto& self) { return std::tie(self.inputs, self.num_links, self.use); }
};
/// The oldest of those.
struct Collect : Call<StepRows, true> {};
struct CheckDrafts : Call<Nothing> {
  ByGroup<DraftInput> inputs;
  std::int64_t depth = 0;
  static auto fields(auto& self) { return std::tie(self.inputs, self.depth); }
};
struct Draft : Call<StepRows, true> {
  ByGroup<DraftInput> inputs;
  std::int64_t depth = 0;
  static auto fields(auto& self) { return std::tie(self.inputs, self.depth); }
};
struct UseOfCache : Call<CacheUse> {};
struct Tree : Call<std::vector<RadixNodeSummary>> {
  std::uint64_t most_nodes = 0;
  static auto fields(auto& self) { return std::tie(self.most_nodes); }
};
struct ExpertLoad : Call<std::vector<std::vector<std::int64_t>>> {};
struct ExpertPlaces : Call<std::optional<ExpertPlaceStats>> {};
/// Other expert maps, beside those in force.
struct StageExperts : Call<Nothing, true> {
  std::vector<BlockExperts> experts;
  static auto fields(auto& self) { return std::tie(self.experts); }
};
/// After all ranks have staged them: in force.
struct PlaceExperts : Call<Nothing> {};
/// Otherwise.
struct DropExperts : Call<Nothing> {};
struct Fabricate : Call<Nothing> {
  SequenceId sequence{};
  std::int64_t num_positions = 0;
  static auto fields(auto& self) { return std::tie(self.sequence, self.num_positions); }
};
/// Room for positions before `end` that arrive from another group.
struct Expect : Call<Room> {
  SequenceId sequence{};
  std::int64_t end = 0;
  static auto fields(auto& self) { return std::tie(self.sequence, self.end); }
};
/// Parts of sequences, between groups.
struct Transfer : Call<Transferred, true> {
  std::vector<SequenceTransfer> transfers;
  static auto fields(auto& self) { return std::tie(self.transfers); }
};
/// A sequence that arrived whole.
struct Adopt : Call<Nothing> {
  SequenceId sequence{};
  bool with_streams = false;
  static auto fields(auto& self) { return std::tie(self.sequence, self.with_streams); }
};
/// Of all calls; no rank replies.
struct End : Call<Nothing> {};

}  // namespace calls

struct RankCall {
  static constexpr std::int64_t kAllGroups = -1;
  using What =
      std::variant<calls::CachedTokens, calls::Open, calls::KeepTail, calls::Lookup, calls::Length,
                   calls::Reserve, calls::Truncate, calls::Share, calls::Close, calls::Prepare,
                   calls::Compute, calls::Commit, calls::FindBadBlock, calls::Begin, calls::Collect,
                   calls::CheckDrafts, calls::Draft, calls::UseOfCache, calls::Tree, calls::ExpertLoad,
                   calls::ExpertPlaces, calls::StageExperts, calls::PlaceExperts, calls::DropExperts,
                   calls::Fabricate, calls::Expect, calls::Transfer, calls::Adopt, calls::End>;

  What what;
  std::int64_t group = kAllGroups;  ///< the data-parallel group whose ranks are called
  static auto fields(auto& self) { return std::tie(self.what, self.group); }

  [[nodiscard]] bool is_collective() const {
    return std::visit([](const auto& call) { return std::decay_t<decltype(call)>::kIsCollective; }, what);
  }
};

struct RankReply {
  using Value = std::variant<calls::Nothing, calls::Tokens, calls::Opened, calls::Room, calls::BadBlock,
                             calls::StepRows, calls::Transferred, DecoderUse, PrefixLookup, CacheUse,
                             std::vector<RadixNodeSummary>, std::vector<std::vector<std::int64_t>>,
                             std::optional<ExpertPlaceStats>>;

  Value value = {};  ///< has the call's type, or nothing: from a rank that failed or was not called
  std::optional<std::string> failure = std::nullopt;
  static auto fields(auto& self) { return std::tie(self.value, self.failure); }

  /// The reply to a `Call` that this rank answered.
  template <class Call>
  [[nodiscard]] const typename Call::Reply& to() const {
    const auto* reply = std::get_if<typename Call::Reply>(&value);
    BALEEN_CHECK(reply != nullptr);
    return *reply;
  }
};

/// Of the first rank that has one.
[[nodiscard]] std::optional<Failure> first_failure(const std::vector<RankReply>& replies);

/// Executes `call` on this rank. Throws what ends the rank.
[[nodiscard]] RankReply answer(RankWorker& worker, const RankCall& call);

}  // namespace baleen
