#include "ops/experts/sm90/groups_wide.cuh"

namespace baleen::sm90 {

void multiply_wide_inner(const WideProducts& products, WeightFormat format, WideShape shape,
                         CudaContext& context) {
  wide::launch<false>(products, format, shape, context);
}

}  // namespace baleen::sm90
