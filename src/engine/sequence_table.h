/// Which sequences are open and whose pages are whose: everything about sequences that is not the forward
/// pass.
///
/// A sequence that is opened with a prompt starts with what the prefix cache holds of it: it **borrows**
/// those pages, a lock keeps them, and the compressor rows at their end go to its own rings. What it computes
/// itself lies in pages of its own until they are **shared**: then the tree takes them over, the sequence
/// goes on with the tree's (which may be older pages of the same tokens), and the lock moves to their end.
///
///     positions   0 ............... 511 | 512 ...... 767 | 768 ....
///     pages       T0        T1          | P2             | P3           T: the tree's, P: the sequence's
///     window      -         T1          | P2             | P3           -: not counted here
///                 └ borrowed, locked ──┘ └ whole: to share ┘
///
/// Content of a page follows from the tokens up to its end alone (the engine's batch invariance), so it does
/// not matter to anyone whose computation a page stems from. One exception: a draft head's row of a page's
/// last position may need the token after it. In a shared page it may be of another continuation, or zero; a
/// draft that sees it can be worse for it, and nothing else.
///
/// Where prompts part, others will: a sequence whose prompt agrees with more pages in the tree than it could
/// begin with leaves a **tail** where they end (it shares its pages up to there when it comes past), and so
/// it does where a part of its prompt ends that others have in common (`keep_tail`).
///
/// With a disk tier, pages go to disk when they are full, and what the tree does not hold of a prompt is
/// looked up there. Pages that come without window rows need a **replay**: the sequence is opened so far
/// before their end that feeding the tokens in between computes the last window's rows again. Every block
/// needs a window more of the block below it, so that far is a window a block:
///
///     position        Q                                   P          entries below P exist and stay
///     block 0         [~~~~~~~|===========================]          ~ sees a window that begins at Q: inexact
///     block 1         [~~~~~~~~~~~~~~~|===================]          = exact
///     last block      [~~~~~~~~~~~~~~~~~~~~~~~|===========]          exact for a window before P
///
/// With bounded replay (EngineOptions::bounded_replay_tokens) window rows of the decoder half exist from
/// where a sequence's begins, and are what that makes of them. So no sequence reads those of others: a prefix
/// is found up to where the decoder half begins, and an open sequence shares its pages up to there; those
/// behind it when it ends. Entries and window rows of the encoder half are the same for all.
///
/// Pool accounts: free + cached + in_use = total in each, checked whenever it is read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/page_archive.h"
#include "engine/step_engine.h"
#include "kv_cache/kv_cache.h"
#include "kv_cache/sequence_pages.h"
#include "prefix_cache/radix_tree.h"

namespace baleen {

/// Not thread-safe. Ids are of open sequences.
class SequenceTable {
 public:
  /// Shares prefixes iff the cache's geometry says so. `cache` outlives this. `reserved_tails`: see
  /// RadixTreeOptions.
  /// `bounds_replay`: sequences have decoder halves that begin where `open` says.
  explicit SequenceTable(KvCache& cache, std::int64_t reserved_tails = 0, bool bounds_replay = false);
  ~SequenceTable();

  /// From now on pages go to and come from `disk`, which outlives this; what there is goes at once, as far as
  /// its queue holds it. Once, and only where prefixes are shared.
  void attach(DiskTier& disk);

  /// As StepEngine::open. `decoder_begin`: where the decoder half of the sequence begins.
  [[nodiscard]] std::optional<SequenceId> open(std::span<const TokenId> prompt,
                                               std::int64_t decoder_begin = 0);
  /// That a query sees raw rows of.
  [[nodiscard]] std::int64_t window_tokens() const { return cache_.geometry().window_tokens; }
  /// Positions before go through the encoder half alone.
  [[nodiscard]] std::int64_t decoder_begin(SequenceId id) const { return sequences_.at(id).decoder_begin; }
  /// Tokens of `prompt` that the tree holds, as `open` would find them. They count as used last.
  [[nodiscard]] std::int64_t cached_tokens(std::span<const TokenId> prompt);
  [[nodiscard]] bool contains(SequenceId id) const { return sequences_.contains(id); }
  [[nodiscard]] std::int64_t length(SequenceId id) const;
  /// All tokens so far.
  [[nodiscard]] std::span<const TokenId> tokens(SequenceId id) const;
  /// Positions before were found in the cache; the sequence's own steps began here.
  [[nodiscard]] std::int64_t opened_at(SequenceId id) const;
  /// As StepEngine::lookup.
  [[nodiscard]] const PrefixLookup& lookup(SequenceId id) const { return sequences_.at(id).lookup; }

  /// Positions before belong to the tree.
  [[nodiscard]] std::int64_t shared_tokens(SequenceId id) const;

  /// As StepEngine::reserve.
  [[nodiscard]] bool reserve(SequenceId id, std::int64_t num_tokens);
  /// Positions there is room for.
  [[nodiscard]] std::int64_t reserved(SequenceId id) const;
  /// Gives back the room beyond `num_positions`, at least the sequence's length.
  void give_back(SequenceId id, std::int64_t num_positions);

  /// The sequence's part of a step of its next `num_tokens` tokens. Valid until the sequence changes.
  [[nodiscard]] SequenceSlice slice(SequenceId id, std::int64_t first_row, std::int64_t num_tokens) const;
  /// The step was computed: these are the sequence's next tokens. `extend` and `settle` in one.
  void commit(SequenceId id, std::span<const TokenId> tokens);
  /// A step of these tokens is under way, for which there is room. kNoToken: `name` will say which.
  void extend(SequenceId id, std::span<const TokenId> tokens);
  /// The token at `position`, not settled yet, is `token`.
  void name(SequenceId id, std::int64_t position, TokenId token);
  /// All positions before `length` were computed and their tokens are known: they may be shared and archived,
  /// and pages behind their window are freed.
  void settle(SequenceId id, std::int64_t length);
  /// As StepEngine::truncate. Not below what was shared or found.
  void truncate(SequenceId id, std::int64_t length);

  /// Room for positions up to `end` that other ranks compute, none of which is the sequence's before `adopt`.
  [[nodiscard]] bool expect(SequenceId id, std::int64_t end);
  /// The pages of the sequence hold the state behind `tokens`, all of them, as another table's did;
  /// window pages from page `first_window_page` on. `has_streams`: as if this engine had computed the last
  /// positions; otherwise as if it had found them in the cache.
  void adopt(SequenceId id, std::vector<TokenId> tokens, std::int64_t first_window_page, bool has_streams);
  [[nodiscard]] const SequencePages& pages(SequenceId id) const { return sequences_.at(id).pages; }

  /// As StepEngine::keep_tail.
  void keep_tail(SequenceId id, std::int64_t end);
  /// The next position at which the sequence will leave a tail; it does when so many positions are settled
  /// that none before is taken back.
  [[nodiscard]] std::optional<std::int64_t> next_tail(SequenceId id) const;
  /// As StepEngine::share and close, of what is settled.
  void share(SequenceId id);
  void close(SequenceId id, bool keep);

  [[nodiscard]] CacheUse cache_use() const;
  [[nodiscard]] std::vector<RadixNodeSummary> tree(std::size_t most_nodes) const;
  /// Stops the program when an invariant of the pools or of the tree is broken. O(everything).
  void check_integrity() const;

 private:
  struct Sequence {
    SequencePages pages;
    std::vector<TokenId> tokens;
    std::int64_t opened_at = 0;
    std::int64_t decoder_begin = 0;
    std::int64_t step_begin = 0;      ///< length before the last step
    std::int64_t settled = 0;         ///< positions before were computed by steps that have ended
    std::optional<PrefixLock> lock;   ///< holds what is borrowed
    std::int64_t replay_end = 0;      ///< P of a replay
    std::vector<std::int64_t> tails;  ///< ends of pages where tails are to be left, the next one last
    PrefixLookup lookup;
    std::vector<PageKey> keys;  ///< keys of its first whole pages, with a disk tier
  };

  /// Pages of the pools that were filled from disk: those after a prefix that the tree has.
  struct LoadedPages {
    std::int64_t end = 0;  ///< number of the page after them
    std::vector<PageId> pages;
    PageId window_page = PageId::kNone;  ///< belongs to the last page
  };

  void start_from_cache(Sequence& sequence, std::span<const TokenId> prompt);
  void want_tail(Sequence& sequence, std::int64_t end) const;
  /// Leaves tails at those positions up to `end` that are wanted.
  void leave_tails(Sequence& sequence, std::int64_t end);
  /// Positions before may be shared while the sequence is open, of `end` that are there.
  [[nodiscard]] std::int64_t shareable(const Sequence& sequence, std::int64_t end) const;
  void share_all(Sequence& sequence);
  /// Shares the first `num_pages` pages, and lets window pages go that no position from `next` on sees. Where
  /// the pages end in the tree, or null when nothing was shared.
  RadixNode* share_pages(Sequence& sequence, std::int64_t num_pages, std::int64_t next);
  /// Locks what the tree has in common with a sequence, instead of what was locked.
  void move_lock(Sequence& sequence, RadixNode* node);
  /// Makes the tree hold what the disk has beyond `found`, which is locked; returns all of it.
  [[nodiscard]] PrefixMatch extend_from_disk(Sequence& sequence, std::span<const TokenId> prefix,
                                             PrefixMatch found);
  /// Begins a replay, where one would save anything.
  void start_replay(Sequence& sequence, std::span<const TokenId> prefix);
  [[nodiscard]] std::optional<LoadedPages> load_from_disk(std::span<const PageKey> keys,
                                                          std::span<const TokenId> prefix, std::int64_t first,
                                                          bool window, std::int64_t least_end);
  void free(const LoadedPages& loaded);
  /// Offers the pages [first, end) of a sequence to the disk.
  void archive(Sequence& sequence, std::int64_t first, std::int64_t end, bool ends_prefix);
  /// Frees pages for `wanted` by evicting prefixes. False, and nothing evicted, when that is not enough.
  [[nodiscard]] bool make_room(PageCounts wanted);
  /// Locks on window pages that their sequences can no longer see.
  void release_windows_behind();
  [[nodiscard]] PageCounts owned() const;

  KvCache& cache_;
  bool bounds_replay_;
  std::unique_ptr<RadixTree> tree_;       ///< null without prefix sharing
  std::unique_ptr<PageArchive> archive_;  ///< null without a disk tier
  std::map<SequenceId, Sequence> sequences_;
  std::int64_t next_id_ = 0;
};

}  // namespace baleen
