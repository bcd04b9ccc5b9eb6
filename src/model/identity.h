/// Which weights these are, as a name to tell caches of different models apart.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/kept_digests.h"

namespace baleen {

/// The identity by content: a hash of config.json (weights in memory have none) and of every byte of the
/// files, so two checkpoints have the same one iff they hold the same, wherever they lie and whatever the
/// files are called. The same tensors in other shards are another checkpoint. Of weights in memory: of names,
/// types, shapes and bytes, as they are when `compute` reads them.
///
/// Files are read whole once; then their digests are kept (KeptDigests) for as long as size, times and inode
/// stay.
class ContentIdentity {
 public:
  /// `checkpoint` outlives this. `fallback`: a folder for digests where the checkpoint's cannot be written.
  ContentIdentity(const Checkpoint& checkpoint, const std::filesystem::path& fallback);

  /// Bytes of files without a kept digest; of weights in memory, all.
  [[nodiscard]] std::int64_t bytes_to_hash() const { return bytes_to_hash_; }
  /// So far. Any thread.
  [[nodiscard]] std::int64_t hashed_bytes() const { return hashed_bytes_; }

  struct Work {
    int num_threads = 1;
    bool gives_way = false;  ///< threads of the lowest priority
    std::stop_token stop = {};
    /// Called after every 64 MiB or so, from any of the threads, one at a time.
    std::function<void(std::int64_t hashed_bytes)> progress = nullptr;
  };
  /// 32 hexadecimal digits, once; none when it was stopped. Reads by `num_threads` threads, in pieces of 64
  /// MiB. Throws `Error` when a file cannot be read, or is not the one any more that is mapped.
  [[nodiscard]] std::optional<std::string> compute(const Work& work);
  /// Where digests are kept; empty when they could not be written, or none was new.
  [[nodiscard]] const std::filesystem::path& kept_in() const { return kept_in_; }

 private:
  struct Source;
  [[nodiscard]] std::vector<Source> sources() const;

  const Checkpoint& checkpoint_;
  KeptDigests kept_;
  std::int64_t bytes_to_hash_ = 0;
  std::atomic<std::int64_t> hashed_bytes_ = 0;
  std::filesystem::path kept_in_;
};

/// 32 hexadecimal digits that cost a few hundred reads: a hash of config.json, of every tensor's name, type
/// and shape, and of bytes from a few hundred tensors. Ranks compare it, to find that they were started with
/// different folders. It does not tell fine-tunes of one model apart.
[[nodiscard]] std::string sampled_identity(const Checkpoint& checkpoint);

}  // namespace baleen
