// What follows the first products of an attention block, in one launch: the norm of the queries' latent and
// the rows of the cache. Blocks have rows of the one or of the other.
#include "cuda/kernel_launch.h"
#include "ops/kv_store/cuda/kv_store.h"
#include "ops/kv_store/cuda/kv_store_rows.cuh"
#include "ops/rms_norm/cuda/rms_norm_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

__global__ void __launch_bounds__(rms_norm_rows::kMaxWarps* kWarpLanes)
    norm_kv_store_kernel(const __grid_constant__ rms_norm_rows::Rows norm, int norm_blocks,
                         const __grid_constant__ kv_store_rows::Rows store, NextAtOnce order) {
  order.launch_next();
  const auto block = static_cast<int>(blockIdx.x);
  if (block < norm_blocks) {
    rms_norm_rows::norm_rows(norm, block);
  } else {
    kv_store_rows::store_rows<kv_store_rows::kMaxPieces>(store, block - norm_blocks);
  }
}

}  // namespace

void rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store, CudaContext& context) {
  const rms_norm_rows::Rows norm_rows = rms_norm_rows::rows_of(norm);
  const kv_store_rows::Rows store_rows = kv_store_rows::rows_of(store, context);
  // Ranks that share out rows norm their own and store all.
  BALEEN_CHECK_LE(norm_rows.num_rows, context.batch.num_rows);
  if (context.batch.num_rows == 0) return;
  const int threads = norm_rows.block_threads(), norm_blocks = static_cast<int>(norm_rows.blocks());
  const int rows_per_block = threads / kWarpLanes;
  const int store_blocks = (context.batch.num_rows + rows_per_block - 1) / rows_per_block;
  launch_kernel("rms_norm, kv_store", norm_kv_store_kernel,
                {.grid = dim3(static_cast<unsigned>(norm_blocks + store_blocks)), .threads = threads},
                context.stream, norm_rows, norm_blocks, store_rows);
}

}  // namespace baleen::BALEEN_ARCH
