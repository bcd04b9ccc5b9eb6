#include "ops/indexer/cuda/indexer.h"

namespace baleen::sm80 {

void indexer(const IndexerArgs& args, CudaContext& context) { mma_indexer(args, context); }

std::int64_t indexer_scratch_bytes(std::int64_t max_rows, std::int64_t top_k, int num_sms,
                                   std::int64_t num_blocks) {
  return mma_indexer_scratch_bytes(max_rows, top_k, num_sms, num_blocks);
}

}  // namespace baleen::sm80
