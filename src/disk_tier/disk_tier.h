/// Pages of the cache on disk: prefixes that survive eviction and restarts.
///
/// A file is one page of one prefix, named by what it contains: the key of page k hashes the key of page k -
/// 1 and the 256 tokens of page k, and the first key hashes the model's fingerprint. So a file can only be
/// found by who asks for the same tokens of the same model, at the same place, after the same beginning.
/// Files are written whole or not at all, checksummed (xxHash) and compressed (zstd). A file that is damaged,
/// foreign, or of another version is ignored with a warning, removed, and never trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "disk_tier/cache_folder.h"
#include "disk_tier/page_file.h"
#include "disk_tier/page_key.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Which pages take their window rows (most of the bytes) to disk.
enum class WindowPolicy : std::uint8_t {
  kAll,          ///< every page: a hit may end anywhere
  kCheckpoints,  ///< every `checkpoint_pages`-th page and ends of prefixes: a hit ends at one of them
  kNone,         ///< none: a hit recomputes the rows of the last window
};

struct DiskTierOptions {
  std::filesystem::path folder;   ///< created when absent
  std::int64_t budget_bytes = 0;  ///< files may take so many bytes; the least recently used go first
  WindowPolicy window_policy = WindowPolicy::kAll;
  std::int64_t checkpoint_pages = 8;
  std::string fingerprint;
  std::int64_t page_bytes = 0;  ///< size of a page without its window rows
  std::int64_t window_page_bytes = 0;
  std::int64_t max_queued_bytes = std::int64_t{256}
                                  << 20;  ///< waiting to be written; pages beyond are not kept
};

struct DiskTierStats {
  std::int64_t num_files = 0, file_bytes = 0;
  std::int64_t queued_pages = 0, queued_bytes = 0;
  std::int64_t written_pages = 0, read_pages = 0;
  std::int64_t dropped_pages = 0;   ///< the queue was full, or the disk
  std::int64_t rejected_files = 0;  ///< damaged, foreign, or of another version
  std::int64_t evicted_files = 0;   ///< for the budget
  // Before the tier exists: of the checkpoint, to know it from others.
  bool knows_model = true;
  std::int64_t bytes_to_hash = 0, hashed_bytes = 0;
};

/// Writes in a thread of its own; the other members are for one thread, except `stats`.
///
/// The least recently used file goes first. A page is of no use without those before it, so whoever stores or
/// loads several pages of a prefix does best to begin with the last: then the ends of prefixes go before
/// their beginnings.
class DiskTier {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// Reads names and headers of all files. `warn` gets a sentence for each file that is ignored, and when
  /// writing begins to fail or works again, from either thread. Throws `Error` when the folder cannot be
  /// used, or another process uses it.
  DiskTier(DiskTierOptions options, Warn warn);
  /// The same of a folder that this process has already.
  DiskTier(DiskTierOptions options, std::unique_ptr<CacheFolder> folder, Warn warn);
  /// Writes what is queued.
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  enum class Presence : std::uint8_t { kAbsent, kPage, kPageAndWindow };
  /// From memory, queued pages included: the file itself may yet prove bad.
  [[nodiscard]] Presence presence(const PageKey& key) const;

  /// Whether the policy wants window rows of page number `page_idx` (0-based), the last of its prefix or not.
  [[nodiscard]] bool wants_window(std::int64_t page_idx, bool ends_prefix) const;

  /// Whether the queue has room for a page of so many bytes; one that it has none for counts as dropped. To
  /// be asked before the bytes of a page are fetched that `store` would drop.
  [[nodiscard]] bool has_room(std::int64_t bytes);

  /// Queues a page; `window` may be empty. A page that is there with as much is marked as used and left
  /// alone. False when the queue is full: the page is dropped.
  bool store(const PageKey& key, std::span<const TokenId> tokens, std::vector<std::byte> page,
             std::vector<std::byte> window);

  /// Reads and verifies, or takes it from the queue; nothing when there is no such page or its file is bad,
  /// which is then removed. Marks it as used.
  [[nodiscard]] std::optional<StoredPage> load(const PageKey& key, std::span<const TokenId> tokens);

  /// Waits until all that is queued is on disk, or dropped.
  void flush();
  [[nodiscard]] DiskTierStats stats() const;
  [[nodiscard]] const DiskTierOptions& options() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace baleen
