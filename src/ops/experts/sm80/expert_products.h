/// Products of experts with FP4 and FP8 weights: two launches for both halves of all experts, over the token
/// tiles of a plan. The arithmetic of an output is that of ops/matmul/cuda/slice_products.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "numeric/weight_format.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "tensor/fp8_rows.h"

namespace baleen::sm80 {

/// One of w1, w3, w2 of all routed experts, or of the shared one.
struct ExpertMatrix {
  const std::byte* data = nullptr;    ///< at place 0
  std::int64_t distance = 0;          ///< bytes from place to place
  const std::byte* scales = nullptr;  ///< place 0's: FP4 group scales or FP8 block scales
  std::int64_t scale_distance = 0;    ///< bytes from place to place
};

struct ExpertMatrices {
  ExpertMatrix gate, up, down;
  std::int32_t inner_width = 0;
};

struct ExpertProducts {
  ExpertMatrices routed, shared;
  const std::int32_t* places = nullptr;  ///< where routed experts lie; null: expert e is at place e
  TileList list;
  std::int64_t max_tiles = 0;
  const float* row_weight = nullptr;
  Fp8Rows x;                  ///< rows of assignments
  Bf16Bits* inner = nullptr;  ///< a of every assignment, [num_rows, inner_pitch], before it is quantised
  Fp8Rows inner_fp8;
  AssignmentOutputs y;
  std::int32_t width = 0;
  std::int32_t inner_pitch = 0;  ///< the larger of both inner widths
  std::int32_t num_experts = 0;
  float swiglu_limit = 0.0F;
};

/// How tokens are cut into tiles.
inline constexpr int kFewTileTokens = 8, kManyTileTokens = 64;
enum class TileKind : std::uint8_t { kFew, kMany };

/// w1, w3 and the activation, to `inner`.
void multiply_inner(const ExpertProducts& products, WeightFormat routed_format, TileKind kind,
                    CudaContext& context);
/// w2, from `inner_fp8` to `y`.
void multiply_down(const ExpertProducts& products, WeightFormat routed_format, TileKind kind,
                   CudaContext& context);

}  // namespace baleen::sm80
