#include "ops/lm_head/cuda/lm_head.h"
#include "ops/matmul/cuda/matmul_bf16.h"

namespace baleen::BALEEN_ARCH {

void lm_head(const LmHeadArgs& args, CudaContext& context) {
  const MatmulBf16 product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul_bf16({&product, 1}, context);
}

}  // namespace baleen::BALEEN_ARCH
