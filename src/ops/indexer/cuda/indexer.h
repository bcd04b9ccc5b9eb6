/// Kernels of indexer. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/indexer/indexer.h"

namespace baleen::BALEEN_ARCH {

void indexer(const IndexerArgs& args, CudaContext& context);
/// Of the device, for steps of up to `max_rows` rows that choose up to `num_blocks` blocks each, whatever the
/// contexts.
[[nodiscard]] std::int64_t indexer_scratch_bytes(std::int64_t max_rows, std::int64_t top_k, int num_sms,
                                                 std::int64_t num_blocks = 0);

/// Stops the program for arguments that none of the kernels takes.
void check_indexer_arguments(const IndexerArgs& args, const CudaContext& context);

/// By mma.sync, which every GPU has; the one that chooses blocks or selects in given ones.
void mma_indexer(const IndexerArgs& args, CudaContext& context);
[[nodiscard]] std::int64_t mma_indexer_scratch_bytes(std::int64_t max_rows, std::int64_t top_k, int num_sms,
                                                     std::int64_t num_blocks);

[[nodiscard]] std::span<const CudaVariant<ops::Indexer>> indexer_variants();

}  // namespace baleen::BALEEN_ARCH
