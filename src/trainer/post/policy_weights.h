/// The trainer's weights as an engine takes them, without a file.
#pragma once

#include <memory>

#include "model/weights.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// A copy of `weights` with every matrix in BF16: for `Precision::kExact`, which then differs from the
/// trainer by that rounding alone. Takes 2 to 4 bytes a value.
[[nodiscard]] std::shared_ptr<const ModelWeights> policy_weights(const ModelConfig& config,
                                                                 const Parameters<float>& weights,
                                                                 const HashTables& hash_tables);

}  // namespace baleen
