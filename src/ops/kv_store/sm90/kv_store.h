/// Hopper (sm_90a) kernels of kv_store. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/kv_store/kv_store.h"

namespace baleen::sm90 {

void kv_store(const KvStoreArgs& args, CudaContext& context);
/// Both, of the same tokens and independent of each other, in one launch.
void rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store, CudaContext& context);

}  // namespace baleen::sm90
