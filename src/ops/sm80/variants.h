/// All variants for GPUs without a row of their own.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/operation/variant_table.h"

namespace baleen::sm80 {

/// Ranks exchange messages through peer memory.
[[nodiscard]] VariantTable<CudaContext> variants();
/// The same by NCCL.
[[nodiscard]] VariantTable<CudaContext> variants_over_nccl();

}  // namespace baleen::sm80
