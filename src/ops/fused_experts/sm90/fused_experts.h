/// Experts over GPUs of one host in three launches that hand rows to each other through peer memory.
///
///     dispatch   sends rows and ids, plans tiles of all ranks' assignments, writes rows that come to the
///                places of their tiles and counts them there
///     products   expert_products.h: begins while rows come, a tile when it is whole; each output goes to the
///                memory of its token's rank, into staging of the exchange that follows
///     sum        the token's rank adds up what has come
///
/// Both exchanges are those of staged dispatch and combine, word for word: a rank may do the one while its
/// peers do the other. Three launches, because a block of the products takes all registers of its
/// multiprocessor, so that no warp that only moves rows fits beside it: it runs before on the same one.
#pragma once

#include <optional>

#include "cuda/cuda_context.h"
#include "ops/dispatch/cuda/dispatch.h"
#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/sm90/expert_products.h"
#include "ops/fused_experts/fused_experts.h"

namespace baleen::sm90 {

/// Of a rank and step; as many as can be staged. On every rank the same.
inline constexpr std::int64_t kMaxFusedTokens = kMaxStagedTokens;
/// Assignments that may come to a rank, empty places included: a block has the expert of each.
inline constexpr std::int64_t kMaxFusedPlaces = 16384;
/// Of the dispatch, one a token. All run at the same time: they wait for other ranks, which wait for them.
inline constexpr int kFusedBlocksPerSm = 2;
/// Experts that a rank may have: a thread of a block plans for one.
inline constexpr std::int64_t kMaxFusedExperts = 512;

struct FusedDispatchLaunch {
  DispatchLaunch sent;  ///< `own` is not used
  PlanInput input;      ///< what all places have; `ids` is not used
  TileList tiles;       ///< out
  Fp8Rows rows;         ///< out: of each assignment and of the shared expert's, as the products want them
  float* row_weight = nullptr;                  ///< out
  std::uint32_t* outputs = nullptr;             ///< out: ExchangedRows::outputs
  unsigned long long* output_arrays = nullptr;  ///< out: ExchangedRows::arrays
  Bf16Bits* own_outputs = nullptr;              ///< [places, width]: the array of this rank
  Bf16Bits* shared_outputs = nullptr;           ///< [T, width]: that of the shared expert
  std::int32_t* plan_ready = nullptr;           ///< 0 before: ExchangedRows::plan_ready
  std::int32_t* rows_ready = nullptr;           ///< [max_tiles], 0 before: ExchangedRows::rows_ready
};
void launch_fused_dispatch(const FusedDispatchLaunch& launch, CudaContext& context);

/// `kFewTokens` and `kManyTokens` for rows that come and outputs that go.
extern const ProductVariant kFewExchanged;
extern const ProductVariant kManyExchanged;

/// The operations one after the other where the step's largest rank has too many tokens for staging, or where
/// ranks share a GPU, whose kernels must not wait for each other on it.
void fused_experts(const DispatchArgs& dispatch, const ExpertsArgs& routed, const ExpertsArgs& shared,
                   const CombineArgs& combine, CudaContext& context);

/// Never one after the other. Between ranks that share a GPU the caller sees to it that their kernels fit it
/// side by side; the products begin behind the dispatch then.
void fused_experts_at_once(const DispatchArgs& dispatch, const ExpertsArgs& routed, const ExpertsArgs& shared,
                           const CombineArgs& combine, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Dispatch, ops::Experts, ops::Experts, ops::Combine>>
fused_experts_variants();

}  // namespace baleen::sm90
