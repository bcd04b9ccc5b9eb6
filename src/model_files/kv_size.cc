#include "model_files/kv_size.h"

#include "numeric/block_scale.h"

namespace baleen {

KvSize kv_size(const ModelConfig& c) {
  constexpr std::int64_t kFloatBytes = 4;
  constexpr std::int64_t kCsaRows = 8;    // the previous block of 4 and the open one
  constexpr std::int64_t kHcaRows = 128;  // the open block
  const std::int64_t num_csa = c.num_layers_of(LayerKind::kCsa);
  const std::int64_t num_hca = c.num_layers_of(LayerKind::kHca);
  KvSize size;
  const std::int64_t num_scales = c.nope_dim() / kLatentBlock;
  size.latent_row_bytes = c.nope_dim() + 2 * c.qk_rope_head_dim + (num_scales + 7) / 8 * 8;
  size.indexer_row_bytes = c.index_head_dim / 2 + c.index_head_dim / kIndexerBlock;
  size.bytes_per_token = static_cast<double>(num_csa * (size.latent_row_bytes + size.indexer_row_bytes)) / 4 +
                         static_cast<double>(num_hca * size.latent_row_bytes) / 128;
  size.window_bytes = c.num_hidden_layers * c.sliding_window * size.latent_row_bytes;
  size.mtp_window_bytes = c.num_nextn_predict_layers * c.sliding_window * size.latent_row_bytes;
  // A row holds values and scores; at ratio 4 each twice, for a token's own block and for the next.
  size.csa_state_bytes = num_csa * kCsaRows * 4 * (c.head_dim + c.index_head_dim) * kFloatBytes;
  size.hca_state_bytes = num_hca * kHcaRows * 2 * c.head_dim * kFloatBytes;
  return size;
}

}  // namespace baleen
