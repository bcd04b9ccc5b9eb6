/// The kernels of the stated order: a block has a piece of a tile, 128 inner values or 256 outputs.
#pragma once

#include <cstdint>

#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/experts_stated.h"
#include "ops/experts/cuda/stated_weights.cuh"

namespace baleen::BALEEN_ARCH {

/// Where tokens come from: BF16, or FP8 that has been made. For `dispatch_kernels::load_word`.
struct TokenRows {
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  std::int64_t width;

  explicit TokenRows(const ExpertsArgs& args)
      : x(args.x.bf16().data()), x_fp8(args.x_fp8), width(args.x.extent(1)) {}
};

/// Whether the kernels of few tokens need no dispatch: each block plans for itself.
[[nodiscard]] bool plans_in_blocks(const DispatchExtents& extents);
/// Tiles of up to kFewStatedTokens. Rows lie as `product_word` says.
void multiply_few_stated(const ExpertsArgs& args, const DispatchExtents& extents,
                         const ExpertScratch& scratch, CudaContext& context);

/// Whether a call is one of a single token that `multiply_one_stated` has shared memory for.
[[nodiscard]] bool multiplies_one(const ExpertsArgs& args, int num_sms);
/// All of such a call, from x to `out`.
void multiply_one_stated(const ExpertsArgs& args, const DispatchExtents& extents,
                         const ExpertScratch& scratch, CudaContext& context);

/// For tiles of many tokens.
struct ManyStatedParams {
  stated::Params products;  ///< `x` and `inner`: rows of the shared expert alone
  DigitRows tokens;         ///< x of each token
  DigitRows inner;          ///< routed experts' rows
  std::int32_t* token_of_row = nullptr;
};

/// Before them: x of `args` as digits, for the shared expert as codes in `shared_rows`, and which token a row
/// has.
void prepare_stated_tokens(const ExpertsArgs& args, const DispatchPlan& plan, const Fp8Rows& shared_rows,
                           const ManyStatedParams& params, CudaContext& context);
/// Tiles of up to kManyStatedTokens.
void multiply_many_stated(const ManyStatedParams& params, const DispatchExtents& extents,
                          CudaContext& context);

/// Of the shared expert, the first `num_tiles` tiles of up to kManyStatedTokens.
enum class SharedHalf { kInner, kDown };
void multiply_shared_stated(const stated::Params& params, int num_tiles, SharedHalf half,
                            CudaContext& context);

/// Pieces of a tile.
inline std::int64_t inner_pieces(std::int64_t inner_width) { return inner_width / kActivationGroup; }
inline std::int64_t down_pieces(std::int64_t width) {
  constexpr std::int64_t kPiece = stated::kStages * dequantised::kWarpDown;
  return (width + kPiece - 1) / kPiece;
}

inline constexpr const char* kStatedLaunch = "multiplying experts in the stated order";

}  // namespace baleen::BALEEN_ARCH
