// Groups that compute prompts and groups that decode: a sequence is open in one of either kind, its pages go
// over between the chunks of its prompt, and behind the last chunk the decode group takes it over.
//
//     prefill group   [ chunk | chunk | chunk | last chunk ]                     keeps the pages as a prefix
//                             pages ▼  pages ▼      pages, window, rings, streams ▼
//     decode group    [ prefix that it has  . . . . . . . . . . . . . . . . . . . ][ decodes
//
// Whatever is refused or finds no room leaves the sequence whole where it is.

#include <fmt/format.h>

#include "kv_cache/geometry.h"
#include "rank_engine/rank_engine.h"

namespace baleen {

void RankEngine::open_successor(Sequence& sequence, std::span<const TokenId> prompt) {
  Successor successor{.group = choose_group(prompt, options_.parallel.prefill_groups, num_groups())};
  std::int64_t length = 0;
  std::tie(successor.own, length) = open_in(successor.group, prompt, sequence.decoder_begin);
  successor.known_pages = successor.num_pages = length / kPageTokens;
  sequence.successor = successor;
  // Of a conversation, the decode group has the replies too.
  if (length <= sequence.length || !expect(sequence.group, sequence.own, length)) return;
  const std::int64_t own_pages = sequence.length / kPageTokens;
  const std::string refusal = transfer({{.from_group = successor.group,
                                         .to_group = sequence.group,
                                         .sent = successor.own,
                                         .received = sequence.own,
                                         .known_pages = own_pages,
                                         .first_page = own_pages,
                                         .end = length,
                                         .last = true}})
                                  .front();
  if (refusal.empty()) {
    static_cast<void>(team_->call({calls::Adopt{.sequence = sequence.own}, sequence.group}));
    sequence.length = length;
    ++transfer_stats_.num_prefixes;
    return;
  }
  refused(sequence, refusal);
  close_in(sequence.group, sequence.own, false);
  std::tie(sequence.own, sequence.length) = open_in(sequence.group, prompt, sequence.decoder_begin);
}

bool RankEngine::expect(std::int64_t group, SequenceId own, std::int64_t end) {
  const RankCall call{calls::Expect{.sequence = own, .end = end}, group};
  return reply_of(team_->call(call), group).to<calls::Expect>().found;
}

std::vector<std::string> RankEngine::transfer(std::vector<SequenceTransfer> transfers) {
  std::vector<std::string> refusals(transfers.size());
  const auto& replies = team_->call({calls::Transfer{.transfers = std::move(transfers)}});
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    const calls::Transferred& reply = replies[rank].to<calls::Transfer>();
    transfer_stats_.num_bytes += reply.num_bytes;
    for (std::size_t i = 0; i < reply.refusals.size(); ++i) {
      const std::string& refusal = reply.refusals[i];
      if (!refusal.empty() && refusals[i].empty()) refusals[i] = fmt::format("rank {}: {}", rank, refusal);
    }
  }
  return refusals;
}

void RankEngine::send_states(std::span<const SequenceId> ids) {
  std::vector<SequenceTransfer> transfers;
  std::vector<Sequence*> senders;
  for (const SequenceId id : ids) {
    Sequence& sequence = sequences_.at(id);
    if (!sequence.successor || std::exchange(sequence.was_sent, true)) continue;
    const Successor& to = *sequence.successor;
    const bool last = sequence.prompt_ended;
    const std::int64_t end = last ? sequence.length : sequence.length / kPageTokens * kPageTokens;
    if ((!last && end / kPageTokens <= to.num_pages) || !expect(to.group, to.own, end)) continue;
    transfers.push_back({.from_group = sequence.group,
                         .to_group = to.group,
                         .sent = sequence.own,
                         .received = to.own,
                         .known_pages = to.known_pages,
                         .first_page = to.num_pages,
                         .end = end,
                         .last = last});
    senders.push_back(&sequence);
  }
  if (transfers.empty()) return;
  const std::vector<std::string> refusals = transfer(transfers);
  for (std::size_t i = 0; i < senders.size(); ++i) {
    Sequence& sequence = *senders[i];
    const SequenceTransfer& sent = transfers[i];
    if (!refusals[i].empty()) {
      refused(sequence, refusals[i]);
      drop_successor(sequence);
    } else if (sent.last) {
      static_cast<void>(
          team_->call({calls::Adopt{.sequence = sent.received, .with_streams = true}, sent.to_group}));
      hand_over(sequence);
      ++transfer_stats_.num_sequences;
    } else {
      sequence.successor->num_pages = sent.end / kPageTokens;
    }
  }
}

void RankEngine::hand_over(Sequence& sequence) {
  close_in(sequence.group, sequence.own, true);
  sequence.group = sequence.successor->group;
  sequence.own = sequence.successor->own;
  sequence.successor.reset();
  if (!sequence.was_shared) return;
  static_cast<void>(team_->call({calls::Share{.sequence = sequence.own}, sequence.group}));
}

void RankEngine::drop_successor(Sequence& sequence) {
  if (!sequence.successor) return;
  close_in(sequence.successor->group, sequence.successor->own, false);
  sequence.successor.reset();
}

void RankEngine::refused(const Sequence& sequence, const std::string& why) {
  ++transfer_stats_.num_refused;
  if (!options_.report_refusal) return;
  options_.report_refusal(fmt::format(
      "the state of a sequence between groups {} and {} was refused, and group {} goes on without it: {}",
      sequence.group, sequence.successor->group, sequence.group, why));
}

std::optional<TransferStats> RankEngine::transfer_stats() const {
  return options_.parallel.prefill_groups > 0 ? std::optional(transfer_stats_) : std::nullopt;
}

}  // namespace baleen
