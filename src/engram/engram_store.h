/// Rows of Engram tables for the steps of one device.
///
///     prefetch    hashes a step's n-grams; rows on disk begin to come        ids known, the step before runs
///     begin       waits for them; rows, or their places, to the device       before the step
///     lookup      what `EngramLookup` reads of a table                       while it runs
///
/// So kernels never wait for a disk, and a captured step finds everything at the same addresses each time.
/// Of a step each row on disk is read once, in the order in which rows lie there, whichever of its tokens
/// want it. The same rows from any place give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

  /// Begins to fetch what a step of these tokens reads, and returns. What was prefetched before is forgotten.
  void prefetch(std::span<const EngramRun> runs);
  /// The steps' operations from here on read the rows of these tokens, in the order of the runs. Fetches what
  /// was not prefetched. Throws `LostDevice` where a file cannot be read any more.
  void begin(std::span<const EngramRun> runs);
  /// Rows [begin, end) of the step, of table `table`; `z`: [end - begin, values of a token's rows]. With the
  /// same arguments the same addresses, for rows of padding too.
  [[nodiscard]] EngramLookupArgs lookup(std::int64_t table, std::int64_t begin, std::int64_t end,
                                        const Activations<2>& z) const;

  [[nodiscard]] EngramPlace place() const { return tables_->place(); }
  /// Rows that the latest step had to fetch from disk, each once.
  [[nodiscard]] std::int64_t num_fetched() const { return num_fetched_; }

  /// What a store takes of the device's memory, and of the host's that is pinned, beside the tables.
  [[nodiscard]] static std::int64_t device_bytes(const EngramConfig& config, EngramPlace place,
                                                 std::int64_t max_rows);
  [[nodiscard]] static std::int64_t host_bytes(const EngramConfig& config, EngramPlace place,
                                               std::int64_t max_rows);

 private:
  [[nodiscard]] bool is_prefetched(std::span<const EngramRun> runs) const;
  void note_prefetched(std::span<const EngramRun> runs);
  /// The tokens before a run that its n-grams may have.
  [[nodiscard]] std::span<const TokenId> last_before(const EngramRun& run) const;
  /// Rows of the tables in `rows_` become places in `distinct_`.
  void collect_distinct();
  void advise_map() const;

  EngramHashes hashes_;
  std::shared_ptr<const EngramTables> tables_;
  std::int64_t max_rows_;
  std::int64_t width_;
  EngramRecord record_;
  Buffer rows_on_device_;  ///< [max_rows, tables, hashes] int64
  Buffer records_on_device_;
  Buffer rows_;     ///< those that were prefetched
  Buffer records_;  ///< likewise
  std::int64_t num_rows_ = 0;
  std::vector<TokenId> prefetched_;    ///< which tokens: of each run lengths and ids
  std::vector<EngramRowId> distinct_;  ///< rows on disk, ascending
  bool is_fetching_ = false;
  std::int64_t num_fetched_ = 0;
  std::unique_ptr<EngramReader> reader_;  ///< null: no table is on disk; ends before what it writes to
};

}  // namespace baleen
