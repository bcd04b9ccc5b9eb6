/// What a sequence keeps in memory, from the config alone.
/// (source: KV cache specification, "Byte layouts" and "Compress state")
#pragma once

#include <cstdint>

#include "model/config.h"

namespace baleen {

struct KvSize {
  std::int64_t latent_row_bytes = 0;   ///< one key-value vector: E4M3, BF16 rotary part, scales padded to 8
  std::int64_t indexer_row_bytes = 0;  ///< one FP4 indexer key with its scales
  double bytes_per_token = 0;          ///< compressed entries and indexer keys, averaged over a long context
  std::int64_t window_bytes = 0;       ///< per sequence: the last 128 vectors of every layer
  std::int64_t mtp_window_bytes = 0;   ///< the same of the MTP blocks
  std::int64_t csa_state_bytes = 0;    ///< per sequence: open blocks of the ratio-4 compressors, float32
  std::int64_t hca_state_bytes = 0;    ///< of the ratio-128 compressors
};

[[nodiscard]] KvSize kv_size(const ModelConfig& config);

}  // namespace baleen
