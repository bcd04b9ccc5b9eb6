#include "cuda/kernel_launch.h"
#include "ops/kv_store/cuda/kv_store.h"
#include "ops/kv_store/cuda/kv_store_rows.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace kv_store_rows;

constexpr int kRowsPerBlock = 4;

template <int kPieces>
__global__ void __launch_bounds__(kRowsPerBlock* kWarpLanes)
    kv_store_kernel(const __grid_constant__ Rows rows, NextAtOnce order) {
  order.launch_next();
  store_rows<kPieces>(rows, static_cast<int>(blockIdx.x));
}

}  // namespace

void kv_store(const KvStoreArgs& args, CudaContext& context) {
  const Rows rows = rows_of(args, context);
  const int num_rows = context.batch.num_rows;
  if (num_rows == 0) return;
  const auto launch = [&](auto kernel) {
    launch_kernel("kv_store", kernel,
                  {.grid = dim3(static_cast<unsigned>((num_rows + kRowsPerBlock - 1) / kRowsPerBlock)),
                   .threads = kRowsPerBlock * kWarpLanes},
                  context.stream, rows);
  };
  rows.width <= kPieceStride ? launch(kv_store_kernel<1>) : launch(kv_store_kernel<kMaxPieces>);
}

}  // namespace baleen::BALEEN_ARCH
