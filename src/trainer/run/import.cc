#include "trainer/run/import.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "model/int4_checkpoint.h"
#include "model/weight_checks.h"
#include "model_files/matrix_codec.h"
#include "model_files/table_rows.h"
#include "numeric/bf16.h"
#include "tokenizer/tokenizer.h"
#include "trainer/graph/finite_values.h"

namespace baleen {
namespace {

Checkpoint open_checkpoint(const TrainConfig& config) {
  constexpr std::size_t kMaxShown = 3;
  Checkpoint checkpoint = with_int4_presented(Checkpoint(config.run.from));
  if (checkpoint.made() != nullptr) {
    fail(
        "{}: weights in int4; training begins from the released formats: `baleen convert IN OUT` writes "
        "such a checkpoint and says what of the values is lost",
        config.run.from.string());
  }
  const std::vector<std::string> found = mismatches(config.model, checkpoint);
  if (found.empty()) return checkpoint;
  std::string shown;
  for (std::size_t i = 0; i < std::min(kMaxShown, found.size()); ++i) shown += "\n  " + found[i];
  if (found.size() > kMaxShown) shown += fmt::format("\n  and {} more", found.size() - kMaxShown);
  fail("{}: another model than [model] describes; leave [model] out to take the checkpoint's own{}",
       config.run.from.string(), shown);
}

void decode_matrix(const Checkpoint& checkpoint, const TensorSpec& spec, const StorageFormats& formats,
                   std::span<float> values, ThreadPool& pool) {
  const StoredMatrix matrix = stored_matrix(checkpoint, spec, formats);
  pool.parallel_for(matrix.num_panels(), [&](std::int64_t panel, int) {
    decode_panel(matrix, panel,
                 values.subspan(static_cast<std::size_t>(panel * kPanelRows * matrix.cols),
                                static_cast<std::size_t>(matrix.panel_rows(panel) * matrix.cols)));
  });
}

void decode_table(const Checkpoint& checkpoint, const TensorSpec& spec, std::span<float> values,
                  ThreadPool& pool) {
  const std::span<const std::byte> codes = checkpoint.at(spec.name + ".weight").bytes,
                                   scales = checkpoint.at(spec.name + ".scale").bytes;
  const std::int64_t width = spec.shape[1];
  pool.parallel_for(spec.shape[0], [&](std::int64_t row, int) {
    decode_table_row(codes, scales, row,
                     values.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width)));
  });
}

void decode_plain(const TensorInfo& tensor, std::span<float> values) {
  if (tensor.dtype == DType::kF32) {
    std::memcpy(values.data(), tensor.bytes.data(), values.size_bytes());
    return;
  }
  BALEEN_CHECK(tensor.dtype == DType::kBF16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bf16Bits bits;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof(bits), sizeof(bits));
    values[i] = bf16_to_float(bits);
  }
}

}  // namespace

void import_weights(const TrainConfig& config, Parameters<float>& weights, ThreadPool& pool) {
  const Checkpoint checkpoint = open_checkpoint(config);
  const StorageFormats formats = detect_formats(config.model, checkpoint);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorSpec& spec = weights.spec(i);
    if (spec.is_matrix()) {
      decode_matrix(checkpoint, spec, formats, weights.values(i), pool);
    } else if (spec.storage == Storage::kFp8Rows) {
      decode_table(checkpoint, spec, weights.values(i), pool);
    } else if (spec.storage != Storage::kI64) {
      decode_plain(checkpoint.at(spec.name), weights.values(i));
    }
    check_finite(fmt::format("{}: tensor \"{}\"", config.run.from.string(), spec.name), weights.values(i));
  }
}

namespace {

std::vector<std::vector<std::int64_t>> expert_tables_of(const TrainConfig& config) {
  if (config.run.from.empty()) return make_token_tables(config.model, config.run.seed).experts;
  const Checkpoint checkpoint = open_checkpoint(config);
  std::vector<std::vector<std::int64_t>> tables;
  for (const TensorSpec& spec : tensor_table(config.model)) {
    if (spec.storage != Storage::kI64) continue;
    const TensorInfo& stored = checkpoint.at(spec.name);
    check_hash_table(stored, config.model);
    std::vector<std::int64_t>& table = tables.emplace_back(static_cast<std::size_t>(spec.num_elements()));
    std::memcpy(table.data(), stored.bytes.data(), stored.bytes.size());
  }
  return tables;
}

}  // namespace

TokenTables token_tables_of(const TrainConfig& config) {
  TokenTables tables{.experts = expert_tables_of(config)};
  if (!config.model.engram) return tables;
  const Tokenizer tokenizer = Tokenizer::load(config.data.folder);
  tables.ngrams =
      std::make_shared<const EngramHashes>(config.model, engram_vocabulary(*config.model.engram, tokenizer));
  return tables;
}

}  // namespace baleen
