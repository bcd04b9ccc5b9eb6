/// All variants that run on Hopper (sm_90a).
#pragma once

#include "cuda/cuda_context.h"
#include "ops/operation/variant_table.h"

namespace baleen::sm90 {

[[nodiscard]] VariantTable<CudaContext> variants();

}  // namespace baleen::sm90
