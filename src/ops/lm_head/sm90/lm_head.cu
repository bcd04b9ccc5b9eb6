#include "ops/lm_head/sm90/lm_head.h"
#include "ops/matmul/sm90/matmul_bf16.h"

namespace baleen::sm90 {

void lm_head(const LmHeadArgs& args, CudaContext& context) {
  const MatmulBf16 product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul_bf16({&product, 1}, context);
}

}  // namespace baleen::sm90
