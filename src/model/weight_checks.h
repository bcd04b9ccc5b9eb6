/// Checks of weights by value, which read them: what no header can tell.
#pragma once

#include "checkpoint/safetensors.h"
#include "model/config.h"

namespace baleen {

/// Throws `Error` at the first scale that is NaN, or, in F32, not positive and finite (of integers, `format`
/// kQ8, it may be zero), or, in E4M3, negative. `scale`: F8_E8M0, F8_E4M3 or F32. Reads all of it.
void check_scale(const TensorInfo& scale, WeightFormat format = WeightFormat::kFp8);

/// Throws `Error` at the first row of a hash routing table [vocab, k] I64 whose ids are not k distinct
/// experts.
void check_hash_table(const TensorInfo& table, const ModelConfig& config);

}  // namespace baleen
