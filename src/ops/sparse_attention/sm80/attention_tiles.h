/// Attention by mma.sync: rows of 448 + 64 values, what the released models run.
#pragma once

#include "ops/sparse_attention/cuda/attention_launch.h"

namespace baleen::sm80 {

inline constexpr std::int64_t kTilesSharedBytes = 99 << 10;  ///< that a block may take

/// All addresses on 16 bytes.
void attention_tiles(const AttentionLaunch& launch, CudaContext& context);
/// For steps of up to `max_rows` rows.
[[nodiscard]] std::int64_t attention_tiles_scratch_bytes(std::int64_t max_rows);

}  // namespace baleen::sm80
