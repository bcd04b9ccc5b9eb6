/// The second of the three kernels of experts: both products of every assignment, in one launch.
///
/// The work is a list of *items*: for each token tile the pieces of w1 and w3 (the *inner* half, x to a),
/// then for each tile the pieces of w2 (the *down* half, a to y). Blocks take items in turn; an item of the
/// down half waits until its tile's inner rows are complete, its weights under way meanwhile. So weights
/// stream without a pause from the first to the last.
///
/// Arithmetic of an output, the same for every shape and batch composition: for each slice of 128 inputs the
/// tensor core's float32 sum D of products of codes; acc = fma(D, s, acc) over ascending slices, where s is
/// the activations' scale (FP8: times the weights'); FP4: at the end times the row's factor
/// (expert_fragments.cuh). Powers of two are exact.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "numeric/weight_format.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "tensor/fp8_rows.h"

namespace baleen::sm90 {

/// One of w1, w3, w2 of all routed experts, or of the shared one.
struct ExpertMatrix {
  CUtensorMap map;                  ///< (byte, row, place), boxes of half an item's rows
  const void* scales = nullptr;     ///< place 0's: FP4 group scales or FP8 scales per 128 x 128
  std::int64_t scale_distance = 0;  ///< elements from place to place
};

struct ExpertMatrices {
  ExpertMatrix gate;
  ExpertMatrix up;
  ExpertMatrix down;
};

/// FP8 rows as TMA sees them.
struct Fp8RowMaps {
  CUtensorMap codes;        ///< (byte, row), in large boxes
  CUtensorMap small_codes;  ///< (byte, row), small boxes
  CUtensorMap scales;       ///< (4 row, scale group)
};

/// For shapes whose tokens come while the kernel runs, and whose outputs go each to an address of its own.
/// Another kernel, all of whose blocks run already, makes the plan and brings the rows.
struct ExchangedRows {
  static constexpr int kMaxArrays = 32;
  const std::int32_t* plan_ready = nullptr;  ///< not 0: tiles, their number and `arrays` are there
  const std::int32_t* rows_ready = nullptr;  ///< [max_tiles]: rows of the tile that are there
  const std::uint32_t* outputs = nullptr;    ///< [num_rows, to a multiple of four] output_place() of the row
  const unsigned long long* arrays = nullptr;  ///< [num_arrays] addresses of Bf16Bits [array_rows, width]
  std::uint32_t num_arrays = 0, array_rows = 0;
  const std::uint32_t* failed = nullptr;  ///< not 0: rows may never come, and nothing waits for them
};

inline constexpr int kOutputRowBits = 24;
/// Row `row` of array `array`.
constexpr std::uint32_t output_place(int array, int row) {
  return static_cast<std::uint32_t>(array) << kOutputRowBits | static_cast<std::uint32_t>(row);
}

struct ExpertProducts {
  ExpertMatrices routed;
  ExpertMatrices shared;
  const std::int32_t* places = nullptr;  ///< where routed experts lie; null: expert e is at place e
  Fp8RowMaps x_maps;
  Fp8RowMaps inner_maps;
  PlanInput plan_input;       ///< for shapes whose blocks plan for themselves
  bool takes_copied = false;  ///< the tiles of copied experts; else the resident ones
  const std::int32_t* num_tiles = nullptr;
  const TokenTile* tiles = nullptr;
  const float* row_weight = nullptr;
  std::int32_t* scale_groups_ready = nullptr;  ///< [max_tiles]: scale groups of `inner` that are complete
  std::int32_t* parts_done =
      nullptr;    ///< [max_tiles, inner_pitch / 128]: pieces of such a group, where an item makes less
  Fp8Rows inner;  ///< a of every assignment
  Bf16Bits* inner_bf16 =
      nullptr;  ///< values before quantisation, where an item makes less than a scale group
  AssignmentOutputs y;
  std::int32_t width = 0;
  std::int32_t inner_width = 0;         ///< width of routed experts
  std::int32_t shared_inner_width = 0;  ///< another where only one of them is split over ranks
  /// Pitch of `inner`, `inner_bf16` and `parts_done`: the larger of both widths.
  std::int32_t inner_pitch = 0;
  std::int32_t num_experts = 0;
  float swiglu_limit = 0.0F;
  ExchangedRows exchanged;  ///< replaces `y` for the shapes that want it

  [[nodiscard]] constexpr bool is_shared(const TokenTile& tile) const { return tile.expert == num_experts; }
};

/// One of the launches that share the tiles of a call.
struct ProductLaunch {
  int num_blocks;  ///< at most the number of SMs
  bool early;      ///< `LaunchShape::early`
};

/// A shape of the kernel, and how the host has to cut maps and buffers for it. All shapes compute the same
/// bits.
struct ProductVariant {
  int half_rows;            ///< rows of one box of weights
  int max_tokens;           ///< most tokens that a tile has
  int box_tokens;           ///< rows of a large box of codes
  int small_box_tokens;     ///< and of a small one
  int scale_box_tokens;     ///< scales in one box
  int max_planned_tiles;    ///< that blocks plan for themselves; 0: they read the plan
  bool whole_scale_groups;  ///< an item of the inner half makes whole scale groups
  /// `split`: inner widths are split over ranks.
  void (*launch)(const ExpertProducts& products, WeightFormat routed_format, bool split,
                 const ProductLaunch& how, CudaContext& context);
};

/// For a few tokens an expert: groups of a block that are at different places of their items.
extern const ProductVariant kFewTokens;
/// Larger items, and many tokens a tile: weights in registers and tokens in shared memory are used often.
extern const ProductVariant kManyTokens;

}  // namespace baleen::sm90
