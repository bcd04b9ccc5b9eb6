#include "ops/experts/cuda/expert_dispatch_kernel.cuh"
#include "ops/experts/cuda/expert_rows.h"
#include "ops/experts/sm90/groups_wide.h"

namespace baleen::sm90 {

void dispatch_experts(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                      const Fp8Rows& rows, CudaContext& context) {
  (rows.group == kSmallActivationGroup
       ? dispatch_experts_in<ProductOrder, kSmallActivationGroup>
       : dispatch_experts_in<ProductOrder>)(args, extents, plan, rows, context);
}

void dispatch_wide_rows(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                        Bf16Bits* rows, CudaContext& context) {
  dispatch_experts_as(args, extents, plan, dispatch_kernels::WideRows{rows}, context);
}

}  // namespace baleen::sm90
