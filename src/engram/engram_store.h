/// Rows of Engram tables for the steps of one device.
///
///     prefetch               hashes n-grams of tokens to come; their rows on disk begin to come
///     prefetch_behind_step   the same, put off until the next step is computed
///     begin                  finds or fetches the rows of a step; these, or their places, to the device
///     lookup                 what `EngramLookup` reads of a table while the step runs
///     step_is_under_way      begins to fetch what was put off
///
/// So kernels never wait for a disk, and a captured step finds everything at the same addresses each time.
/// What was prefetched is a guess about the next step alone: of its tokens those are found that a run of the
/// guess begins with, behind the same tokens, and rows on disk whichever tokens they were fetched for. What
/// is missing is fetched by `begin`; what is too much is forgotten. Each row on disk is read once for a step,
/// and rows that are requested together in the order in which they lie there. The same rows from any place,
/// early or late, give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engram/engram_hashes.h"
#include "engram/engram_reader.h"
#include "engram/engram_tables.h"
#include "ops/engram/engram_lookup.h"
#include "tensor/buffer.h"

namespace baleen {

/// Not thread-safe.
class EngramStore {
 public:
  /// For steps of at most `max_rows` rows, padding included. `device`: what operations read; `host`: memory
  /// that it copies from at full speed. Both outlive this. Throws `Error` where either has not enough, or a
  /// table's file cannot be opened.
  EngramStore(EngramHashes hashes, std::shared_ptr<const EngramTables> tables, std::int64_t max_rows,
              Memory& device, Memory& host);
  EngramStore(const EngramStore&) = delete;
  EngramStore& operator=(const EngramStore&) = delete;
  ~EngramStore();

  /// The next step is expected to have these tokens too: begins to fetch what they read, and returns. Tokens
  /// for which there is no room, that of one step, are passed over.
  void prefetch(std::span<const EngramRun> runs);
  /// As `prefetch`, for the step behind the next one, while that is computed: its rows come first, and its
  /// operations do not wait for hashes of others. Instead of what was given here before.
  void prefetch_behind_step(std::span<const EngramRun> runs);
  /// The latest step's operations were all called. Of a file's map the pages have begun to come in `begin`
  /// already: a processor has computed the operations when they return.
  void step_is_under_way();
  /// The steps' operations from here on read the rows of these tokens, in the order of the runs. Fetches what
  /// was not prefetched. Throws `LostDevice` where a file cannot be read any more.
  void begin(std::span<const EngramRun> runs);
  /// Rows [begin, end) of the step, of table `table`; `z`: [end - begin, values of a token's rows]. With the
  /// same arguments the same addresses, for rows of padding too.
  [[nodiscard]] EngramLookupArgs lookup(std::int64_t table, std::int64_t begin, std::int64_t end,
                                        const Activations<2>& z) const;

  [[nodiscard]] EngramPlace place() const { return tables_->place(); }
  /// Tokens before a run that its rows depend on.
  [[nodiscard]] std::size_t num_before() const { return static_cast<std::size_t>(hashes_.num_before()); }
  /// Rows on disk that the latest step reads, each once, and those of them that were requested before it
  /// began.
  [[nodiscard]] std::int64_t num_fetched() const { return num_fetched_; }
  [[nodiscard]] std::int64_t num_fetched_ahead() const { return num_fetched_ahead_; }
  /// Tokens of the latest step whose rows were found before it began.
  [[nodiscard]] std::int64_t num_tokens_ahead() const { return num_tokens_ahead_; }

  /// What a store takes of the device's memory, and of the host's that is pinned, beside the tables.
  [[nodiscard]] static std::int64_t device_bytes(const EngramConfig& config, EngramPlace place,
                                                 std::int64_t max_rows);
  [[nodiscard]] static std::int64_t host_bytes(const EngramConfig& config, EngramPlace place,
                                               std::int64_t max_rows);

 private:
  /// Tokens of one sequence, kept.
  struct KeptRun {
    std::vector<TokenId> before, ids;

    [[nodiscard]] EngramRun view() const { return {before, ids}; }
  };
  /// One whose rows were found, from `first_entry` of `ahead_rows_` on.
  struct AheadRun {
    KeptRun tokens;
    std::size_t first_entry = 0;
  };

  [[nodiscard]] KeptRun kept(const EngramRun& run) const;
  /// The tokens before a run that its n-grams may have.
  [[nodiscard]] std::span<const TokenId> last_before(const EngramRun& run) const;
  [[nodiscard]] std::size_t entries_of_token() const {
    return static_cast<std::size_t>(hashes_.num_tables() * hashes_.num_hashes());
  }
  /// Of the runs ahead the one with the most of this run's first tokens, and how many; null: none has any.
  [[nodiscard]] std::pair<const AheadRun*, std::size_t> longest_ahead(const EngramRun& run) const;
  /// Entries [tokens, tables, hashes] of runs: numbers of rows, or of tables on disk the rows' places in
  /// `records_`; those that have none get one and begin to come. Nothing where there is no room for them.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> find(std::span<const EngramRun> runs);
  /// Numbers of rows become places.
  [[nodiscard]] bool find_places(std::span<std::int64_t> rows);
  /// The step's entries to `rows_`, rows on disk to `records_`. The sentence where one cannot be read.
  [[nodiscard]] std::optional<std::string> bring(std::span<const EngramRun> runs);
  void count_fetched(std::size_t num_requested_ahead);
  void forget_ahead();
  void advise_map(std::span<const std::int64_t> rows) const;

  EngramHashes hashes_;
  std::shared_ptr<const EngramTables> tables_;
  std::int64_t max_rows_;
  std::int64_t width_;
  EngramRecord record_;
  Buffer rows_on_device_;  ///< [max_rows, tables, hashes] int64
  Buffer records_on_device_;
  Buffer rows_;     ///< the step's, until they are on the device
  Buffer records_;  ///< likewise, and those that were prefetched
  std::int64_t num_rows_ = 0;
  std::vector<AheadRun> ahead_;
  std::vector<std::int64_t> ahead_rows_;  ///< entries of their tokens
  std::vector<KeptRun> behind_step_;
  /// Rows on disk that have places in `records_`, ascending; they come or are there.
  std::vector<std::pair<EngramRowId, std::int64_t>> requested_;
  std::int64_t num_fetched_ = 0, num_fetched_ahead_ = 0, num_tokens_ahead_ = 0;
  std::unique_ptr<EngramReader> reader_;  ///< null: no table is on disk; ends before what it writes to
};

}  // namespace baleen
