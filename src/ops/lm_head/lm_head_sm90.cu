#include "ops/lm_head/lm_head.h"
#include "ops/matmul/matmul_bf16_sm90.h"

namespace baleen {

void lm_head_sm90(const LmHeadArgs& args, CudaContext& context) {
  const MatmulBf16 product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul_bf16_sm90({&product, 1}, context);
}

}  // namespace baleen
