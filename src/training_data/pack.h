/// A corpus to a folder of shards: tokenised, split, shuffled. The folder is whole in itself: tokenizer.json
/// lies beside the shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "training_data/corpus.h"
#include "training_data/shard_format.h"
#include "training_data/training_text.h"

namespace baleen {

/// Each is a file that is flushed when it is written, and a map of every process that trains on it.
inline constexpr std::int64_t kMaxShards = 4096;

struct PackOptions {
  std::vector<std::filesystem::path> files;
  std::vector<std::filesystem::path> held_out_files;  ///< whose documents are the held-out split
  std::filesystem::path tokenizer;                    ///< folder with tokenizer.json, or that file
  std::filesystem::path out;
  bool replace = false;                ///< packed data that is there already
  std::optional<CorpusFormat> format;  ///< empty: by each file's name
  RecordRules rules;
  /// Share of the documents of `files` that is held out, in [0, 1); excludes `held_out_files`. A document's
  /// bytes and the seed decide, so equal documents are never on both sides, and a longer corpus keeps the
  /// choice.
  double held_out_share = 0;
  std::uint64_t seed = 1;
  /// A shard ends with the document that reaches it; at most `kMaxShards` of a split.
  std::int64_t shard_tokens = std::int64_t{1} << 28;
  int num_threads = 1;
  /// Called now and then with bytes of input done and to do (pipes not counted).
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

struct PackResult {
  ShardTotals train, held_out;  ///< zeros where there is no held-out split
};

/// The bytes of the shards depend on the corpus, the tokenizer and the options, never on threads. Throws
/// `Error`, which names file and line for a bad record and refuses more shards than `kMaxShards` as soon as
/// the documents ask for them, and leaves `out` as it was; a run that is killed leaves nothing in it either.
/// Memory: 64 bytes a document, and about ten times the longest one.
PackResult pack_corpus(const PackOptions& options);

}  // namespace baleen
