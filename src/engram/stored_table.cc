#include "engram/stored_table.h"

#include <fmt/format.h>

#include <functional>

#include "base/error.h"
#include "model/tensor_table.h"
#include "ops/engram/engram_lookup.h"

namespace baleen {
namespace {

/// Null where `bytes` lie in none of the checkpoint's files.
const MappedFile* file_of(std::span<const std::byte> bytes, const Checkpoint& checkpoint) {
  const std::less<const std::byte*> before;
  for (const MappedFile* file : checkpoint.files()) {
    const std::span<const std::byte> all = file->bytes();
    if (!before(bytes.data(), all.data()) && before(bytes.data(), all.data() + all.size())) return file;
  }
  return nullptr;
}

View<const std::uint8_t, 2> rows_of(const TensorInfo& tensor, const TensorHeader& expected) {
  if (tensor.dtype != expected.dtype || tensor.shape != expected.shape) {
    fail("tensor \"{}\" in {}: {}, where the config wants {}", tensor.name, tensor.file, tensor.type_text(),
         expected.type_text());
  }
  return {reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), {tensor.shape[0], tensor.shape[1]}};
}

std::int64_t num_scales(std::int64_t width) {
  return (width + kEngramScaleColumns - 1) / kEngramScaleColumns;
}

}  // namespace

std::vector<StoredEngramTable> stored_engram_tables(const ModelConfig& config, const Checkpoint& checkpoint) {
  std::vector<StoredEngramTable> tables;
  for (const TensorSpec& spec : tensor_table(config)) {
    if (spec.role != TensorRole::kEngramTable) continue;
    const std::vector<TensorHeader> expected = stored_tensors(spec, {});
    const TensorInfo& codes = checkpoint.at(expected[0].name);
    const TensorInfo& scales = checkpoint.at(expected[1].name);
    tables.push_back({.name = spec.name,
                      .codes = rows_of(codes, expected[0]),
                      .scales = rows_of(scales, expected[1]),
                      .codes_file = file_of(codes.bytes, checkpoint),
                      .scales_file = file_of(scales.bytes, checkpoint)});
  }
  return tables;
}

std::int64_t engram_table_bytes(const EngramConfig& config) {
  std::int64_t bytes = 0;
  for (const std::int64_t rows : config.num_embeddings)
    bytes += rows * (config.head_dim + num_scales(config.head_dim));
  return bytes;
}

}  // namespace baleen
