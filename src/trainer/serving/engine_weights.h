/// The trainer's weights as an engine takes them, without a file.
#pragma once

#include <filesystem>
#include <memory>

#include "model/weights.h"
#include "parallel/thread_pool.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// Every matrix in BF16: for `Precision::kExact`, which then differs from the trainer by that rounding alone.
inline const StorageFormats kBf16Formats{.dense = WeightFormat::kBF16, .experts = WeightFormat::kBF16};

/// A copy of `weights` with matrices in `formats`, the bytes that an export in them has. `tokenizer`: its
/// folder, by which n-grams are hashed where the model has tables of them.
[[nodiscard]] std::shared_ptr<const ModelWeights> engine_weights(
    const ModelConfig& config, const Parameters<float>& weights, const TokenTables& token_tables,
    const StorageFormats& formats, const std::filesystem::path& tokenizer, ThreadPool& pool);

}  // namespace baleen
