/// bf16_split for up to eight tokens and so few outputs that tiles of eight take half of the chip at most.
#pragma once

#include "ops/matmul/sm90/bf16_products.h"

namespace baleen::sm90 {

/// Whether it takes a launch of kMaxSegments.
[[nodiscard]] bool are_few_for_split(const Bf16Work& work, int num_sms);

/// The same bits as bf16_split.
void bf16_split_few(const Bf16Work& work, CudaContext& context);

}  // namespace baleen::sm90
