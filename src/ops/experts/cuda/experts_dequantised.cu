// Both products of experts whose weights are dequantised, a launch each (expert_dequantised.cuh).
#include "ops/experts/cuda/experts_dequantised.h"

#include <type_traits>

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/expert_dequantised.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace dequantised;

/// Formats of routed experts and of the shared one, and values of activations that share a scale.
template <WeightFormat kRoutedFormat, WeightFormat kSharedFormat, int kValues>
struct Formats {
  static constexpr WeightFormat kRouted = kRoutedFormat, kShared = kSharedFormat;
  static constexpr int kGroup = kValues;
  static constexpr int kBlockWarps = kGroup == kActivationGroup ? kWarps : kSmallGroupWarps;
  static constexpr int kBlockThreads = kBlockWarps * kWarpLanes;
};
using Nvfp4 = Formats<WeightFormat::kNvfp4, WeightFormat::kFp8, kActivationGroup>;
template <WeightFormat kRouted>
using SmallGroups = Formats<kRouted, WeightFormat::kFp8x32, kSmallActivationGroup>;

/// Block (t, n): piece n of tile t, of the inner half or of the down half.
template <class F, int kTokens, bool kDown>
__global__ void __launch_bounds__(F::kBlockThreads, kWarps / F::kBlockWarps)
    dequantised_kernel(const Params p, NextAtOnce order) {
  __shared__ ProductSmem<kTokens> memory;
  order.launch_next();
  if constexpr (F::kRouted == WeightFormat::kNvfp4) make_multipliers(memory.multipliers);
  ptx::wait_for_previous_kernel();
  if (static_cast<int>(blockIdx.x) >= *p.num_tiles) return;
  const TokenTile tile = p.tiles[blockIdx.x];
  const int inner_width = p.is_shared(tile) ? p.shared_inner_width : p.inner_width;
  if (!kDown && static_cast<int>(blockIdx.y) * (F::kBlockWarps * kWarpInner) >= inner_width) return;
  const auto multiply_half = [&](auto format, const Matrix(&matrices)[3], int place) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    if constexpr (kDown) {
      multiply_down<kFormat, F::kGroup, F::kBlockWarps>(p, matrices, tile, place, inner_width, memory);
    } else {
      multiply_inner<kFormat, F::kGroup, F::kBlockWarps>(p, matrices, tile, place, memory);
    }
  };
  if (p.is_shared(tile)) {
    multiply_half(std::integral_constant<WeightFormat, F::kShared>(), p.shared, 0);
  } else {
    multiply_half(std::integral_constant<WeightFormat, F::kRouted>(), p.routed,
                  expert_place(p.places, tile.expert));
  }
}

template <class F, int kTokens>
void launch_both(const Params& params, std::int64_t max_tiles, CudaContext& context) {
  const auto launch = [&](void (*kernel)(Params, NextAtOnce), std::int64_t pieces) {
    launch_kernel("multiplying dequantised experts", kernel,
                  {.grid = dim3(static_cast<unsigned>(max_tiles), static_cast<unsigned>(pieces)),
                   .threads = F::kBlockThreads},
                  context.stream, params);
  };
  constexpr int kInnerPiece = F::kBlockWarps * kWarpInner, kDownPiece = F::kBlockWarps * kWarpDown;
  launch(dequantised_kernel<F, kTokens, false>, params.inner_pitch / kInnerPiece);
  launch(dequantised_kernel<F, kTokens, true>, (params.width + kDownPiece - 1) / kDownPiece);
}

template <class F>
void launch_few(const Params& params, const DispatchExtents& extents, CudaContext& context) {
  BALEEN_CHECK_EQ(extents.tile_tokens, kFewDequantisedTokens);
  launch_both<F, kFewDequantisedTokens>(params, extents.max_tiles(), context);
}

}  // namespace

void dequantised_expert_products(const ExpertsArgs& args, const DispatchExtents& extents,
                                 const ExpertScratch& scratch, CudaContext& context) {
  const Params params = params_of(args, extents, scratch, scratch.plan.lists.resident);
  const WeightMatrix& first = args.routed[0].w1;
  BALEEN_CHECK(args.shared == nullptr || args.shared->w1.activation_group == first.activation_group);
  if (first.activation_group == kActivationGroup) {
    BALEEN_CHECK(first.format == WeightFormat::kNvfp4);
    if (extents.tile_tokens != kManyDequantisedTokens) return launch_few<Nvfp4>(params, extents, context);
    launch_both<Nvfp4, kManyDequantisedTokens>(params, extents.max_tiles(), context);
  } else if (first.format == WeightFormat::kFp4) {
    launch_few<SmallGroups<WeightFormat::kFp4>>(params, extents, context);
  } else {
    BALEEN_CHECK(first.format == WeightFormat::kFp8x32);
    launch_few<SmallGroups<WeightFormat::kFp8x32>>(params, extents, context);
  }
}

}  // namespace baleen::BALEEN_ARCH
