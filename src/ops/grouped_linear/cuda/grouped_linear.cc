#include "ops/grouped_linear/cuda/grouped_linear.h"
#include "base/check.h"
#include "numeric/block_scale.h"
#include "ops/matmul/cuda/bf16_work.h"

namespace baleen::BALEEN_ARCH {

void grouped_linear(const GroupedLinearArgs& args, CudaContext& context) {
  BALEEN_CHECK(args.precision == Precision::kReleased && args.x.element_type() == ElementType::kBf16);
  const std::int64_t num_groups = args.x.extent(1);
  // Row slices of FP8 weights start on a scale block; the config wants o_lora_rank in multiples of it.
  BALEEN_CHECK(args.weight->rows % num_groups == 0 && args.weight->rows / num_groups % kWeightBlock == 0);
  const Bf16Work::Output output{args.weight, args.y};
  // Groups make for outputs enough to keep every SM busy: one segment.
  run_bf16({.x = args.x.address(),
            .num_rows = args.x.extent(0),
            .num_groups = num_groups,
            .num_inputs = args.x.extent(2),
            .row_stride = args.x.stride(0),
            .group_stride = args.x.stride(1),
            .num_segments = 1,
            .outputs = {&output, 1}},
           context);
}

}  // namespace baleen::BALEEN_ARCH
