/// An Engram table as a checkpoint has it: rows of e4m3 codes, and their scales in a tensor of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "tensor/view.h"

namespace baleen {

/// Views into the checkpoint, which outlives them.
struct StoredEngramTable {
  std::string name;                    ///< "layers.1.engram.embed"
  View<const std::uint8_t, 2> codes;   ///< [rows, width] e4m3
  View<const std::uint8_t, 2> scales;  ///< [rows, width / 32], rounded up, e8m0
  // The files whose maps these are; null where the bytes lie in memory of ours.
  const MappedFile* codes_file = nullptr;
  const MappedFile* scales_file = nullptr;

  [[nodiscard]] std::int64_t num_rows() const { return codes.extent(0); }
  [[nodiscard]] std::int64_t width() const { return codes.extent(1); }
  [[nodiscard]] std::int64_t size_bytes() const { return codes.size() + scales.size(); }
  [[nodiscard]] bool is_in_files() const { return codes_file != nullptr && scales_file != nullptr; }
};

/// One for each of the config's "engram_layer_ids"; none of a model without them. Throws `Error` for a tensor
/// that is missing or of another type than the config asks for.
[[nodiscard]] std::vector<StoredEngramTable> stored_engram_tables(const ModelConfig& config,
                                                                  const Checkpoint& checkpoint);

/// Bytes of all tables of a config, scales included.
[[nodiscard]] std::int64_t engram_table_bytes(const EngramConfig& config);

}  // namespace baleen
