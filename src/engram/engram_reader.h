/// Reads single rows of Engram tables out of a checkpoint's files, many at a time: a disk answers forty
/// questions in little more time than one. Nothing is expected of the system's cache of pages.
///
/// A row becomes a record: its codes, then its scales, then bytes up to the next multiple of 16.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engram/stored_table.h"

namespace baleen {

/// A row of one of several tables. Ordered as they lie on disk.
struct EngramRowId {
  std::int64_t table = 0;
  std::int64_t row = 0;

  auto operator<=>(const EngramRowId&) const = default;
};

/// Where a record of rows of `width` values has what.
struct EngramRecord {
  std::int64_t scales_at = 0;
  std::int64_t size_bytes = 0;

  explicit EngramRecord(std::int64_t width);
};

class EngramReader {
 public:
  /// Reads that are under way at most: the rows that a token of V4.1 reads of both tables.
  static constexpr int kReads = 48;

  /// Opens the tables' files. `tables` are all in files and of one width; they outlive this. Throws `Error`.
  explicit EngramReader(std::span<const StoredEngramTable> tables);
  EngramReader(const EngramReader&) = delete;
  EngramReader& operator=(const EngramReader&) = delete;
  /// Ends once the reads that are under way have.
  ~EngramReader();

  /// Begins to read `rows`, as records, to `to`, which stays valid until `wait`. Behind what was started
  /// before.
  void start(std::span<const EngramRowId> rows, std::byte* to);
  /// Until all that was started is there, at once where nothing was. The sentence about the first row, as
  /// they were started, that could not be read: which, of what table, in which file, and why.
  [[nodiscard]] std::optional<std::string> wait();

 private:
  struct Files {
    explicit Files(const StoredEngramTable& table) : codes(*table.codes_file), scales(*table.scales_file) {}
    MappedFileReader codes, scales;
  };
  struct Read {
    EngramRowId row;
    std::byte* to;
  };
  struct Failed {
    std::size_t place;
    std::string why;
  };

  void work();
  /// Empty: the row is there.
  [[nodiscard]] std::string read(const EngramRowId& id, std::byte* to) const;

  std::span<const StoredEngramTable> tables_;
  EngramRecord record_;
  std::deque<Files> files_;  ///< one for each table
  std::mutex mutex_;         ///< guards what follows, but for the rows' bytes
  std::condition_variable started_, done_;
  std::vector<Read> reads_;  ///< all that was started since the latest `wait`
  std::size_t num_taken_ = 0, num_done_ = 0;
  std::optional<Failed> failed_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace baleen
