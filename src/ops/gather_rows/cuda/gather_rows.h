/// Kernels of gather_rows. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/gather_rows/gather_rows.h"

namespace baleen::BALEEN_ARCH {

void gather_rows(const GatherRowsArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::GatherRows>> gather_rows_variants();

}  // namespace baleen::BALEEN_ARCH
