/// Attention by mma.sync, which every GPU has: rows of 448 + 64 values, V4's and V4.1's.
#pragma once

#include "ops/sparse_attention/cuda/attention_launch.h"

namespace baleen::sm80::mma_tiles {

inline constexpr std::int64_t kSharedBytes = 99 << 10;  ///< that a block may take

/// All addresses on 16 bytes.
void attend(const AttentionLaunch& launch, CudaContext& context);
/// For steps of up to `max_rows` rows.
[[nodiscard]] std::int64_t scratch_bytes(std::int64_t max_rows);

}  // namespace baleen::sm80::mma_tiles
