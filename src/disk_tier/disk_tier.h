/// Pages of the cache on disk: prefixes that survive eviction and restarts.
///
/// A file is one page of one prefix, named by what it contains: the key of page k hashes the key of page k - 1 and
/// the 256 tokens of page k, and the first key hashes the model's fingerprint. So a file can only be found by who
/// asks for the same tokens of the same model, at the same place, after the same beginning. Files are written whole
/// or not at all, checksummed (xxHash) and compressed (zstd). A file that is damaged, foreign, or of another
/// version is ignored with a warning, removed, and never trusted.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// 128-bit hash of a page's content and of all before it.
struct PageKey {
  std::uint64_t high = 0, low = 0;
  [[nodiscard]] friend bool operator==(const PageKey&, const PageKey&) = default;
};

/// Key before the first page. `fingerprint` says which model, precision and cache layout made the pages.
[[nodiscard]] PageKey root_key(std::string_view fingerprint);
[[nodiscard]] PageKey page_key(const PageKey& parent, std::span<const TokenId> page_tokens);

/// Which pages take their window rows (most of the bytes) to disk.
enum class WindowPolicy : std::uint8_t {
  kAll,          ///< every page: a hit may end anywhere
  kCheckpoints,  ///< pages at multiples of `checkpoint_pages` and ends of prefixes: a hit ends at one of them
  kNone,         ///< none: a hit recomputes the rows of the last window
};

struct DiskTierOptions {
  std::filesystem::path folder;   ///< created when absent
  std::int64_t budget_bytes = 0;  ///< of files; the least recently used go first
  WindowPolicy window_policy = WindowPolicy::kAll;
  std::int64_t checkpoint_pages = 8;
  std::string fingerprint;
  std::int64_t page_bytes = 0;  ///< of a page without its window rows
  std::int64_t window_page_bytes = 0;
  std::int64_t max_queued_bytes = std::int64_t{256}
                                  << 20;  ///< waiting to be written; pages beyond are not kept
};

struct StoredPage {
  std::vector<std::byte> page;
  std::vector<std::byte> window;  ///< empty when the file has no window rows
};

struct DiskTierStats {
  std::int64_t num_files = 0, file_bytes = 0;
  std::int64_t written_pages = 0, read_pages = 0, dropped_pages = 0, rejected_files = 0, evicted_files = 0;
};

/// Writes in a thread of its own; the other members are for one thread.
class DiskTier {
 public:
  /// Scans the folder. `warn` gets a sentence for each file that is ignored, from either thread. Throws `Error` when
  /// the folder cannot be used, or another process uses it.
  DiskTier(DiskTierOptions options, std::function<void(const std::string&)> warn);
  /// Writes what is queued.
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  enum class Presence : std::uint8_t { kAbsent, kPage, kPageAndWindow };
  /// From the index in memory: the file itself may yet prove bad.
  [[nodiscard]] Presence presence(const PageKey& key) const;

  /// Whether the policy wants window rows of page number `page_idx` (0-based), the last of its prefix or not.
  [[nodiscard]] bool wants_window(std::int64_t page_idx, bool ends_prefix) const;

  /// Queues a page; a page that is there with as much is left alone. False when the queue is full.
  bool store(const PageKey& key, std::span<const TokenId> tokens, std::vector<std::byte> page,
             std::vector<std::byte> window);

  /// Reads and verifies; nothing when there is no such file or it is bad. Marks it as used.
  [[nodiscard]] std::optional<StoredPage> load(const PageKey& key, std::span<const TokenId> tokens);

  /// Waits until all that is queued is on disk.
  void flush();
  [[nodiscard]] DiskTierStats stats() const;
  [[nodiscard]] const DiskTierOptions& options() const;
};

}  // namespace baleen
