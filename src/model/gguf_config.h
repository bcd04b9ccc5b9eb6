/// The config of a GGUF model, from its keys.                          (source: releases specification 9.D)
#pragma once

#include <cstdint>

#include "checkpoint/gguf/gguf_model.h"
#include "model/config.h"

namespace baleen {

/// Which blocks a GGUF model has, by its tensors' names: "blk.N.nextn.*" are the MTP blocks', which come
/// last.
struct GgufBlocks {
  std::int64_t num_layers = 0;
  std::int64_t num_mtp = 0;
};

/// Throws `Error` where the key "block_count" says another number.
[[nodiscard]] GgufBlocks gguf_blocks(const GgufModel& model);

/// Throws `Error` for another architecture than deepseek4, for a key that is missing, of another kind or
/// with a value that cannot be computed. Not validated further: its `config_text` is for `parse_config`.
/// Formats are left as they are by default; BF16 dense matrices.
[[nodiscard]] ModelConfig gguf_config(const GgufModel& model, const GgufBlocks& blocks);

}  // namespace baleen
