/// The second half of attention on tiles where a few items are shared among many thread blocks.
#pragma once

#include "ops/sparse_attention/sm90/tile_work.cuh"

namespace baleen::sm90 {

/// Weights that wait (of items that fit their slots) times values, to the output.
void gather_tiles(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context);

}  // namespace baleen::sm90
