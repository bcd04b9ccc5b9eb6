/// All variants that run on Hopper (sm_90a).
#pragma once

#include "cuda/cuda_context.h"
#include "ops/operation/variant_table.h"

namespace baleen::sm90 {

/// Ranks exchange messages through peer memory.
[[nodiscard]] VariantTable<CudaContext> variants();
/// The same by NCCL.
[[nodiscard]] VariantTable<CudaContext> variants_over_nccl();

}  // namespace baleen::sm90
