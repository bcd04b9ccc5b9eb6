/// The second of the three kernels of experts_sm90: both products of every visit, in one launch.
///
/// The work is a list of *items*: for each token tile the pieces of w1 and w3 (the *inner* half, x to a), then for each tile the
/// pieces of w2 (the *down* half, a to y). Blocks take items in turn; an item of the down half waits until its tile's inner
/// rows are complete, its weights under way meanwhile. So weights stream without a pause from the first to the last.
///
/// Arithmetic of an output, the same for every shape and company: for each slice of 128 inputs the tensor core's float32
/// sum D of products of codes; acc = fma(D, s, acc) over ascending slices, where s is the activations' scale (FP8: times the
/// block's); FP4: at the end times the row's factor (expert_fragments.cuh). Powers of two are exact.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "numeric/weight_format.h"
#include "ops/experts/expert_dispatch.h"
#include "tensor/fp8_rows.h"

namespace baleen {

/// One of w1, w3, w2 of all routed experts, or of the shared one.
struct ExpertMatrix {
  CUtensorMap map;                  ///< (byte, row, expert), boxes of half an item's rows
  const void* scales = nullptr;     ///< expert 0's: FP4 group scales or FP8 block scales
  std::int64_t scale_distance = 0;  ///< elements from expert to expert
};

struct ExpertMatrices {
  ExpertMatrix gate;
  ExpertMatrix up;
  ExpertMatrix down;
};

/// FP8 rows as TMA sees them.
struct Fp8RowMaps {
  CUtensorMap codes;   ///< (byte, row)
  CUtensorMap scales;  ///< (4 row, block)
};

struct ExpertProducts {
  ExpertMatrices routed;
  ExpertMatrices shared;
  Fp8RowMaps x_maps;
  Fp8RowMaps inner_maps;
  const std::int32_t* num_tiles = nullptr;
  const TokenTile* tiles = nullptr;
  const float* row_weight = nullptr;
  std::int32_t* blocks_ready = nullptr;  ///< [max_tiles]: blocks of 128 of `inner` that are complete
  std::int32_t* parts_done =
      nullptr;    ///< [max_tiles, inner_width / 128]: pieces of such a block, where an item makes less
  Fp8Rows inner;  ///< a of every visit
  Bf16Bits* inner_bf16 = nullptr;  ///< the same before quantisation, where an item makes less than a block
  Bf16Bits* y = nullptr;           ///< [num_rows, width]
  std::int32_t width = 0;
  std::int32_t inner_width = 0;
  std::int32_t num_experts = 0;
  float swiglu_limit = 0.0F;
};

/// How the host has to cut maps and buffers for a shape of the kernel.
struct ProductShapeFacts {
  int half_rows;         ///< rows of one box of weights
  int max_tokens;        ///< of a token tile
  int box_tokens;        ///< rows of one box of codes
  int scale_box_tokens;  ///< scales in one box
  bool whole_blocks;     ///< an item of the inner half makes whole blocks of 128
};

/// Few tokens an expert: many small items, to stream weights with all multiprocessors.
extern const ProductShapeFacts kFewTokensFacts;
void few_token_products(const ExpertProducts& products, WeightFormat routed_format, CudaContext& context);

/// Many tokens an expert: large items, to use the weights in registers and the tokens in shared memory often.
extern const ProductShapeFacts kManyTokensFacts;
void many_token_products(const ExpertProducts& products, WeightFormat routed_format, CudaContext& context);

}  // namespace baleen
