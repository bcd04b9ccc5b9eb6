/// The engine's own table of sequences, page pools and prefix tree, over memory that does not exist.
///
/// The table wants every token. Most of the time it has nothing to do about one: only where a page begins or
/// ends. So tokens are counted here, and given to the table as soon as what it knows can matter: when the
/// sequence needs pages, is shared or ends, and, for all sequences, when free pages run short. The table's
/// state is then the same as if it had been given them step by step (feeding n tokens at once is one of its
/// ordinary steps).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sequence_table.h"
#include "simulator/serving/token_stream.h"
#include "tensor/unbacked_memory.h"

namespace baleen {

class SimulatedSequences final : public SequenceKeeper {
 public:
  /// `reserved_tails` and `bounds_replay` as in SequenceTable. Throws `Error` when there are no addresses for
  /// so much.
  SimulatedSequences(const CacheGeometry& geometry, const CacheCapacity& capacity,
                     std::int64_t reserved_tails, bool bounds_replay = false);

  /// As SequenceTable::open, with the first `num_tokens` of the stream as prompt. Ids are used again.
  [[nodiscard]] std::optional<SequenceId> open(const TokenStream& stream, std::int64_t num_tokens,
                                               std::int64_t decoder_begin = 0);
  /// Positions before go through the encoder half alone.
  [[nodiscard]] std::int64_t decoder_begin(SequenceId id) const {
    return table_.decoder_begin(at(id).in_table);
  }

  [[nodiscard]] std::int64_t length(SequenceId id) const override { return at(id).length; }
  [[nodiscard]] bool reserve(SequenceId id, std::int64_t num_tokens) override;
  void share(SequenceId id) override;
  void close(SequenceId id, bool keep) override;
  /// O(sequences).
  [[nodiscard]] CacheUse cache_use() const override;

  /// More tokens that `reserve` without taking a page has room for.
  [[nodiscard]] std::int64_t room(SequenceId id) const { return at(id).reserved - at(id).length; }
  /// A step has fed the next tokens of the stream, for which there is room.
  void feed(SequenceId id, std::int64_t num_tokens);
  /// A step has fed them, and all but the first `num_kept` were wrong drafts, which are taken back.
  void feed_drafts(SequenceId id, std::int64_t num_tokens, std::int64_t num_kept);

  /// Stops the program when an invariant of the pools or of the tree is broken.
  void check_integrity() const;

 private:
  struct Sequence {
    SequenceId in_table{};
    TokenStream stream;
    std::int64_t length = 0;     ///< tokens fed
    std::int64_t committed = 0;  ///< how many of those the table knows
    std::int64_t reserved = 0;   ///< positions there is room for
    bool is_open = false;
  };
  [[nodiscard]] Sequence& at(SequenceId id) { return sequences_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Sequence& at(SequenceId id) const { return sequences_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::span<const TokenId> tokens(const TokenStream& stream, std::int64_t begin,
                                                std::int64_t end) const;
  void tell(Sequence& sequence) const;
  /// Whether pages could come back once the table knows all tokens.
  [[nodiscard]] bool may_release(const Sequence& sequence) const;
  /// Of all sequences, what pages that come back depend on.
  void tell_all() const;

  UnbackedMemory memory_;
  // Telling the table what was fed changes nothing that a caller can see.
  mutable KvCache cache_;
  mutable SequenceTable table_;
  mutable std::vector<Sequence> sequences_;
  std::vector<SequenceId> free_ids_;
  mutable std::vector<TokenId> tokens_;  ///< tokens of one call
};

}  // namespace baleen
