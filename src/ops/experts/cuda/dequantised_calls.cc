// Calls of experts whose weights are dequantised beside the products.
#include "ops/experts/cuda/expert_fetch.h"
#include "ops/experts/cuda/experts_dequantised.h"

namespace baleen::BALEEN_ARCH {

void experts_dequantised(WeightFormat shared, int tile_tokens, DequantisedProducts& multiply,
                         const ExpertsArgs& args, CudaContext& context) {
  if (args.x.extent(0) == 0) return;
  check_expert_arguments(args, shared);
  const DispatchExtents extents = extents_of(args, tile_tokens);
  const ScratchScope scope(context.scratch);
  const ExpertScratch scratch =
      lay_out_dequantised(context.scratch, extents, args.x.extent(1), inner_pitch_of(args), args.split,
                          args.routed[0].w1.activation_group);
  fetch_before_products(args, context);
  const ExpertsArgs fetched = all_on_device(args);
  dispatch_experts(fetched, extents, scratch.plan, scratch.rows, context);
  multiply(fetched, extents, scratch, context);
  combine_experts(fetched, extents, scratch.plan, scratch.y, context);
}

void experts_nvfp4(const ExpertsArgs& args, CudaContext& context) {
  experts_dequantised(
      WeightFormat::kFp8,
      mean_assignments(args) <= kFewDequantisedTokens ? kFewDequantisedTokens : kManyDequantisedTokens,
      dequantised_expert_products, args, context);
}

}  // namespace baleen::BALEEN_ARCH
