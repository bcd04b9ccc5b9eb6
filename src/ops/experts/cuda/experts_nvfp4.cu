// Both products of NVFP4 experts, a launch each (expert_dequantised.cuh).
#include "ops/experts/cuda/experts_nvfp4.h"

#include <type_traits>

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/expert_dequantised.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace dequantised;

/// Block (t, n): piece n of tile t, of the inner half or of the down half.
template <int kTokens, bool kDown>
__global__ void __launch_bounds__(kThreads) nvfp4_kernel(const Params p, NextAtOnce order) {
  __shared__ Memory<kTokens> memory;
  order.launch_next();
  make_multipliers(memory.multipliers);
  ptx::wait_for_previous_kernel();
  if (static_cast<int>(blockIdx.x) >= *p.num_tiles) return;
  const TokenTile tile = p.tiles[blockIdx.x];
  const int inner_width = p.is_shared(tile) ? p.shared_inner_width : p.inner_width;
  if (!kDown && static_cast<int>(blockIdx.y) * kActivationGroup >= inner_width) return;
  const auto multiply_half = [&](auto format, const Matrix(&matrices)[3], int place) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    if constexpr (kDown) {
      multiply_down<kFormat, kTokens>(p, matrices, tile, place, inner_width, memory);
    } else {
      multiply_inner<kFormat, kTokens>(p, matrices, tile, place, memory);
    }
  };
  if (p.is_shared(tile)) {
    multiply_half(std::integral_constant<WeightFormat, WeightFormat::kFp8>(), p.shared, 0);
  } else {
    multiply_half(std::integral_constant<WeightFormat, WeightFormat::kNvfp4>(), p.routed,
                  expert_place(p.places, tile.expert));
  }
}

template <int kTokens>
void launch_both(const Params& params, std::int64_t max_tiles, CudaContext& context) {
  const auto launch = [&](void (*kernel)(Params, NextAtOnce), std::int64_t pieces) {
    launch_kernel(
        "multiplying NVFP4 experts", kernel,
        {.grid = dim3(static_cast<unsigned>(max_tiles), static_cast<unsigned>(pieces)), .threads = kThreads},
        context.stream, params);
  };
  constexpr int kDownPiece = kWarps * kWarpDown;
  launch(nvfp4_kernel<kTokens, false>, params.inner_pitch / kActivationGroup);
  launch(nvfp4_kernel<kTokens, true>, (params.width + kDownPiece - 1) / kDownPiece);
}

}  // namespace

void nvfp4_expert_products(const ExpertsArgs& args, const DispatchExtents& extents,
                           const ExpertScratch& scratch, CudaContext& context) {
  const Params params = params_of(args, extents, scratch, scratch.plan.lists.resident);
  BALEEN_CHECK(extents.tile_tokens == kFewNvfp4Tokens || extents.tile_tokens == kManyNvfp4Tokens);
  if (extents.tile_tokens == kFewNvfp4Tokens)
    return launch_both<kFewNvfp4Tokens>(params, extents.max_tiles(), context);
  launch_both<kManyNvfp4Tokens>(params, extents.max_tiles(), context);
}

}  // namespace baleen::BALEEN_ARCH
