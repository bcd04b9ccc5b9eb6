/// Sends the state of sequences to the ranks of another data-parallel group, and receives it.
///
///     sender                                      receiver
///     ─► manifest: pools and their counts ──────► equal to what its own geometry expects? else it refuses
///     ◄─ accepted ──────────────────────────────
///     ─► page by page, window page, ring, row ──► into pages that only this sequence has
///     ─► manifest: with checksums ──────────────► equal to those of what arrived? else it refuses
///
/// Counts and checksums run over all parts of a sequence, so a part that is lost is missed by the next. What
/// has arrived is not the sequence's until `adopt`; closing it before gives everything back.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/sequence_table.h"
#include "model/rank_layout.h"
#include "rank_engine/sequence_transfer.h"
#include "rank_engine/state_manifest.h"

namespace baleen {

class DraftHead;

/// Of one rank: the ranks of two groups with the same stage and heads exchange with each other. Not
/// thread-safe; everything it is given outlives it.
class StateTransfers {
 public:
  /// `identity`: all that decides what bytes given tokens have on this rank. `draft_head`: of the engine;
  /// null: it has none. `communicator` to the other ranks.
  StateTransfers(SequenceTable& sequences, KvCache& cache, const DraftHead* draft_head,
                 const RankLayout& layout, Communicator& communicator, std::string identity);

  /// This rank's part of `transfer`; nothing where it is of neither group. Ranks of both call it at the same
  /// time, in the same order. A failure says why the receiver refuses. The receiver has room up to
  /// `transfer.end` (SequenceTable::expect).
  [[nodiscard]] std::optional<Failure> exchange(const SequenceTransfer& transfer);
  /// The sequence goes on with what arrived, all of it and without a failure on any rank. `has_streams`: the
  /// sender computed its last positions, so that a draft head can go on from them.
  void adopt(SequenceId received, bool has_streams);
  /// What is known of the sequence's transfer, when it ends.
  void forget(SequenceId sequence) { under_way_.erase(sequence); }

  /// Bytes of pools that arrived at this rank, since the start.
  [[nodiscard]] std::int64_t received_bytes() const { return received_bytes_; }

 private:
  struct Transfer {
    StateManifest manifest;
    std::vector<TokenId> tokens;
    std::int64_t first_window_page = 0;
  };
  /// What is moved at once: where it lies, as bytes of these ranges.
  struct Part {
    std::span<const PoolRange> ranges;
    std::function<void(std::span<std::byte>)> read;
    std::function<void(std::span<const std::byte>)> write;
  };
  /// What comes before the manifest's bytes.
  struct Header {
    std::int64_t manifest_bytes = 0;
    std::int64_t first_window_page = 0;
  };

  void send(const SequenceTransfer& transfer);
  [[nodiscard]] std::optional<Failure> receive(const SequenceTransfer& transfer);
  /// What is wrong with what the sender announces; nothing: `own` counts it too.
  [[nodiscard]] std::optional<Failure> check_plan(const SequenceTransfer& transfer, const Header& header,
                                                  std::span<const std::byte> manifest, Transfer& own);
  [[nodiscard]] std::vector<Part> parts(const SequenceTransfer& transfer, SequenceId sequence,
                                        std::vector<TokenId>& tokens, std::int64_t first_window_page);
  [[nodiscard]] Transfer& under_way(SequenceId sequence);
  [[nodiscard]] RankGroup with_group(std::int64_t group) const;
  void send_bytes(std::int64_t group, std::span<const std::byte> bytes);
  void receive_bytes(std::int64_t group, std::span<std::byte> bytes);

  SequenceTable& sequences_;
  KvCache& cache_;
  const DraftHead* draft_head_;
  const RankLayout& layout_;
  Communicator& communicator_;
  std::string identity_;
  std::map<SequenceId, Transfer> under_way_;
  PoolRange token_range_, draft_range_;
  std::vector<std::byte> buffer_;
  std::int64_t received_bytes_ = 0;
};

}  // namespace baleen
