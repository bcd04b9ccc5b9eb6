/// What the driver of several ranks has them do, as a value: described once, executed by all of them in the
/// same order, whether they are threads of a process or processes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace baleen {

struct RankCall {
  enum class Kind : std::uint8_t {
    kCachedTokens,
    kOpen,
    kKeepTail,  ///< at position `number`
    kLookup,
    kLength,
    kReserve,
    kTruncate,
    kShare,
    kClose,
    kPrepare,  ///< with `compute` and `commit`, a step
    kCompute,
    kFindBadBlock,
    kCommit,
    kBegin,    ///< after kPrepare: a step that runs ahead, with at most `number` drafts an input
    kCollect,  ///< the oldest of those
    kCheckDrafts,
    kDraft,
    kCacheUse,
    kTree,
    kExpertLoad,
    kExpertPlaces,
    kStageExperts,  ///< other expert maps, beside those in force
    kPlaceExperts,  ///< after all ranks have staged them: in force
    kDropExperts,   ///< otherwise
    kFabricate,
    kExpect,    ///< room for positions that arrive from another group, up to `number`
    kTransfer,  ///< parts of sequences, between groups
    kAdopt,     ///< a sequence that arrived whole; `keep`: with its streams
    kEnd,       ///< of all calls; no rank replies
  };
  static constexpr std::int64_t kAllGroups = -1;

  Kind kind{};
  std::int64_t group = kAllGroups;  ///< the data-parallel group whose ranks are called
  SequenceId sequence{};            ///< as the group's engines number it
  std::int64_t number = 0;          ///< tokens, positions, nodes or depth, as the kind wants
  bool keep = false;
  std::span<const TokenId> tokens = {};
  std::vector<std::vector<StepInput>> inputs = {};   ///< of each group, with the group's numbers of sequences
  std::vector<std::vector<DraftInput>> drafts = {};  ///< likewise
  std::vector<BlockExperts> experts = {};
  std::vector<SequenceTransfer> transfers = {};
};

/// Whether all ranks must be at it at the same time, because they exchange messages to answer, or should,
/// because each has much to copy.
[[nodiscard]] bool is_collective(RankCall::Kind kind);

struct RankReply {
  std::int64_t number = 0;  ///< a count, a truth, a block, or -1: none
  std::optional<std::string> failure = std::nullopt;
  ConstActivations<2> logits = {};  ///< of the group's answering rank; valid until the next collective call
  ConstActivations<2> mtp_logits = {};
  std::span<const TokenId> chosen = {};  ///< likewise
  std::span<const TokenId> drafted = {};
  CacheUse cache_use = {};
  PrefixLookup lookup = {};
  std::vector<RadixNodeSummary> tree = {};
  std::vector<std::vector<std::int64_t>> expert_load = {};
  std::optional<ExpertPlaceStats> expert_places = std::nullopt;
  std::vector<std::string> refusals = {};  ///< of each transfer; empty: none
};

/// Of the first rank that has one.
[[nodiscard]] std::optional<Failure> first_failure(const std::vector<RankReply>& replies);

/// Executes `call` on this rank. Throws what ends the rank.
[[nodiscard]] RankReply answer(Engine& engine, const RankCall& call);

}  // namespace baleen
