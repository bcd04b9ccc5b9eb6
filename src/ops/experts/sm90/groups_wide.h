/// Experts whose activations have a scale per 32, for many tokens: products in BF16 by `wgmma`. Weights are
/// its first operand and become BF16 in registers, tokens lie in shared memory as BF16 (`wide_word`), scales
/// in either's values. Bits are those of the kernels for few tokens (expert_dequantised.cuh).
///
/// Four launches behind the dispatch: w1 and w3 of the shared expert, of routed ones, then w2 of either.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "numeric/weight_format.h"
#include "ops/experts/cuda/expert_layout.h"

namespace baleen::sm90 {

/// What one launch multiplies: the tiles [first_tile, end_tile) of a list.
struct WideProducts {
  CUtensorMap weights[2];                ///< (byte, row, place): w1 and w3, or w2 twice
  CUtensorMap tokens;                    ///< (byte, row)
  const std::uint8_t* scales[2] = {};    ///< place 0's matrices' scales
  std::int64_t scale_distance[2] = {};   ///< from place to place
  const std::int32_t* places = nullptr;  ///< routed experts' places; null: expert e is at place e
  bool are_shared = false;               ///< the tiles of the shared expert, which is at place 0
  const TokenTile* tiles = nullptr;
  const std::int32_t* num_tiles = nullptr;    ///< the list's length
  std::int32_t first_tile = 0, end_tile = 0;  ///< the launch's part of the tiles that there may be
  std::int32_t num_slices = 0;                ///< slices have 128 inputs
  std::int32_t num_rows = 0;                  ///< a matrix's rows
  const float* row_weight = nullptr;          ///< w1 and w3 take it
  Bf16Bits* inner = nullptr;                  ///< their result [rows, inner_pitch], as tokens of w2
  std::int32_t inner_pitch = 0;
  float swiglu_limit = 0.0F;
  ExpertOutputs y;  ///< w2's result
};

/// How tokens are cut into tiles.
enum class WideShape : std::uint8_t {
  kSmall,  ///< up to 64: the call waits for its weights, of which more are under way
  kLarge   ///< up to 144
};
[[nodiscard]] constexpr int wide_tile_tokens(WideShape shape) {
  return shape == WideShape::kSmall ? 64 : 144;
}
/// Tokens of one copy to shared memory.
[[nodiscard]] constexpr int wide_box_tokens(WideShape shape) { return shape == WideShape::kSmall ? 32 : 48; }

/// Weights in kFp4 or kFp8x32.
void multiply_wide_inner(const WideProducts& products, WeightFormat format, WideShape shape,
                         CudaContext& context);
void multiply_wide_down(const WideProducts& products, WeightFormat format, WideShape shape,
                        CudaContext& context);

/// Device memory of a call between its launches. Rows of x lie where outputs are written when nothing reads
/// x any more.
struct WideScratch {
  DispatchPlan plan;
  Bf16Bits* rows = nullptr;
  Bf16Bits* inner = nullptr;
  AssignmentOutputs y;
};
template <class Source>
[[nodiscard]] WideScratch lay_out_wide(Source& source, const DispatchExtents& extents, std::int64_t width,
                                       std::int64_t inner_width, ExpertSplit split) {
  WideScratch scratch{.plan = lay_out_plan(source, extents, false, 0),
                      .inner = source.template allocate<Bf16Bits>(extents.num_rows() * inner_width),
                      .y = lay_out_outputs(source, extents, width, split)};
  scratch.rows = scratch.y.routed.partial != nullptr ? reinterpret_cast<Bf16Bits*>(scratch.y.routed.partial)
                                                     : scratch.y.routed.rounded;
  return scratch;
}

/// y of every assignment, at its row. `extents.tile_tokens`: those of `shape`.
void wide_expert_products(const ExpertsArgs& args, const DispatchExtents& extents, WideShape shape,
                          const WideScratch& scratch, CudaContext& context);

/// As dispatch_experts, with rows as BF16 values.
void dispatch_wide_rows(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                        Bf16Bits* rows, CudaContext& context);

}  // namespace baleen::sm90
