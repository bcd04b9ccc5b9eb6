/// Kernels of kv_store. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/kv_store/kv_store.h"

namespace baleen::BALEEN_ARCH {

void kv_store(const KvStoreArgs& args, CudaContext& context);
/// Both, of the same tokens and independent of each other, in one launch.
void rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::KvStore>> kv_store_variants();
[[nodiscard]] std::span<const CudaVariant<ops::RmsNorm, ops::KvStore>> rms_norm_kv_store_variants();

}  // namespace baleen::BALEEN_ARCH
