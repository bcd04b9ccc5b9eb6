/// The trainer's weights as an engine takes them, without a file.
#pragma once

#include <memory>

#include "model/weights.h"
#include "parallel/thread_pool.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// Every matrix in BF16: for `Precision::kExact`, which then differs from the trainer by that rounding alone.
inline const StorageFormats kBf16Formats{.dense = WeightFormat::kBF16, .experts = WeightFormat::kBF16};

/// A copy of `weights` with matrices in `formats`, the bytes that an export in them has.
[[nodiscard]] std::shared_ptr<const ModelWeights> engine_weights(const ModelConfig& config,
                                                                 const Parameters<float>& weights,
                                                                 const HashTables& hash_tables,
                                                                 const StorageFormats& formats,
                                                                 ThreadPool& pool);

}  // namespace baleen
