#include "ops/experts/cuda/expert_dispatch_kernel.cuh"
#include "ops/experts/cuda/expert_rows.h"

namespace baleen::sm80 {
namespace {

struct OrderOfInputs {
  constexpr int operator()(int source) const { return source; }
};

}  // namespace

void dispatch_experts(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                      const Fp8Rows& rows, CudaContext& context) {
  if (rows.group == kSmallActivationGroup)
    return dispatch_experts_in<ProductOrder, kSmallActivationGroup>(args, extents, plan, rows, context);
  const bool by_product =
      args.routed[0].w1.format == WeightFormat::kNvfp4 || args.sums == ExpertSums::kStated;
  (by_product ? dispatch_experts_in<ProductOrder> : dispatch_experts_in<OrderOfInputs>)(args, extents, plan,
                                                                                        rows, context);
}

}  // namespace baleen::sm80
