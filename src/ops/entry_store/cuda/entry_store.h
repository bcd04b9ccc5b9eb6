/// Kernels of entry_store. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/entry_store/entry_store.h"

namespace baleen::BALEEN_ARCH {

void entry_store(const EntryStoreArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::EntryStore>> entry_store_variants();

}  // namespace baleen::BALEEN_ARCH
