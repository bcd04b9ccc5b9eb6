#include "ops/experts/cuda/expert_dispatch_kernel.cuh"
#include "ops/experts/cuda/expert_rows.h"

namespace baleen::sm90 {

void dispatch_experts(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                      const Fp8Rows& rows, CudaContext& context) {
  (rows.group == kSmallActivationGroup
       ? dispatch_experts_in<ProductOrder, kSmallActivationGroup>
       : dispatch_experts_in<ProductOrder>)(args, extents, plan, rows, context);
}

}  // namespace baleen::sm90
