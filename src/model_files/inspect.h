/// What a checkpoint folder holds, from config.json and the safetensors headers alone: no weight is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kv_cache/geometry.h"
#include "model/checkpoint_kind.h"
#include "model/tensor_table.h"

namespace baleen {

/// Parameters are elements of the tensors: scales and hash tables do not count.
struct ParameterCount {
  std::int64_t total = 0;  ///< without a draft head's blocks
  /// What one token uses of those: all but the experts that it is not routed to.
  std::int64_t per_token = 0;
  std::int64_t drafts = 0;         ///< parameters of a draft head's blocks, also of one that is left unread
  std::int64_t engram_tables = 0;  ///< part of `total`
};

[[nodiscard]] ParameterCount count_parameters(const ModelConfig& config);

struct FormatTotal {
  std::int64_t num_tensors = 0;
  std::int64_t bytes = 0;
};

/// What the tensors of one part are together.
struct PartTotal {
  std::string part;  ///< "attention", "routed experts", "draft head", "left unread"
  std::int64_t num_tensors = 0;
  std::int64_t parameters = 0;  ///< 0 of what is left unread
  std::int64_t bytes = 0;
};

struct TensorLine {
  std::string name;
  std::string type;       ///< "BF16 [512, 5120]"
  std::string_view part;  ///< as `PartTotal` has it, "left unread" or "not known"
};

/// The n-gram tables of a V4.1.
struct EngramReport {
  std::int64_t num_tables = 0;
  std::int64_t bytes = 0;           ///< all rows, scales included
  std::int64_t rows_per_token = 0;  ///< over all tables
  std::int64_t bytes_per_token = 0;
  /// "99,092 of 129,280 tokens"; empty where the folder has no tokenizer.
  std::string vocabulary;
};

/// Of a checkpoint that cannot be run for what it is (`kind.why_not`) only the members up to `by_format`
/// are filled, unless its tensors are known (`is_described`).
struct CheckpointReport {
  std::filesystem::path folder;
  CheckpointKind kind;
  std::int64_t num_files = 0;
  std::int64_t num_tensors = 0;
  std::int64_t total_bytes = 0;
  std::map<std::string, FormatTotal> by_format;  ///< "BF16", "FP4 (packed in I8)", "FP8 E4M3", ...
  bool is_described = false;      ///< it can be run, or is a V4.1 whose config.json says nothing unknown
  std::string why_not_described;  ///< the sentence about what is not known
  ModelConfig config;             ///< describes what the files hold
  ParameterCount parameters;
  std::vector<PartTotal> parts;     ///< every tensor is in one, but those that mismatch
  std::vector<TensorLine> tensors;  ///< all, in the order of the files
  EngramReport engram;              ///< no tables: it has none
  StorageFormats formats;
  CacheGeometry kv;                     ///< what the cache takes in released precision
  std::vector<std::string> mismatches;  ///< one sentence each; empty for a checkpoint that can be run
};

/// Throws `Error` for what leaves nothing to report: no or bad config.json, no or damaged files.
[[nodiscard]] CheckpointReport inspect_checkpoint(const std::filesystem::path& folder);

/// A line for each tensor of a described checkpoint: name, type, part.
[[nodiscard]] std::string tensors_text(const CheckpointReport& report);

/// For people; at most `max_mismatches` of the mismatches.
[[nodiscard]] std::string report_text(const CheckpointReport& report, std::size_t max_mismatches = 20);
/// The same as one JSON object, with every mismatch.
[[nodiscard]] std::string report_json(const CheckpointReport& report);

}  // namespace baleen
