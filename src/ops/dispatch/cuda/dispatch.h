/// Dispatch and combine between GPUs of one host, over peer memory.
///
/// A launch does not know how many rows will come, so every assignment has a place of its own: what member j
/// sends for slot s of its token t is row `(j T + t) k + s`, T the most tokens that a rank may have. Places
/// that get no row have expert -1. `DispatchedRows` therefore counts places, on every rank the same.
///
/// Of few tokens, rows and outputs are pushed into staging of the receiver, a row once to each rank that has
/// experts of it, with a flag: one trip over the link. Of many, dispatch writes rows where they are used and
/// combine reads outputs where they were made; ranks tell each other the addresses in the course of it.
#pragma once

#include "comm/peer/peer_view.h"
#include "cuda/cuda_context.h"
#include "ops/dispatch/combine.h"
#include "ops/dispatch/dispatch.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kMaxSelected = 16;  ///< experts of a token

/// Where experts are, for kernels.
struct ExpertHolders {
  std::int32_t slots_per_rank = 1;
  const std::int32_t* table = nullptr;  ///< ExpertMap::table; null: linear
  [[nodiscard]] constexpr int place_of(std::int32_t physical) const { return physical / slots_per_rank; }
  /// The slot that computes assignment `index`, token * k + slot; -1 where it has no expert.
  [[nodiscard]] constexpr std::int32_t physical(std::int32_t expert, std::int32_t index) const {
    if (table == nullptr || expert < 0) return expert;
    const std::int32_t first = table[expert];
    return table[first + copy_of(index, table[expert + 1] - first)];
  }
};

[[nodiscard]] ExpertHolders holders_of(const ExpertRanks& placement);

/// Arrays whose addresses a rank tells the others, in this order.
struct ArrivalArrays {
  Bf16Bits* rows = nullptr;
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
  std::int32_t* ids = nullptr;
  float* weights = nullptr;
};

struct DispatchLaunch {
  PeerView peers;
  ExpertHolders holders;
  ArrivalArrays own;
  std::int64_t scale_stride = 0;  ///< elements from block to block of `scales`, on every rank
  bool sends_fp8 = true;
  const Bf16Bits* x = nullptr;
  Fp8Rows x_fp8{};
  const std::int32_t* ids = nullptr;
  const float* weights = nullptr;
  std::int32_t num_tokens = 0;
  std::int32_t num_selected = 0;
  std::int32_t places = 0;  ///< what each sender has: T k
  std::int64_t width = 0;
};
void launch_staged_dispatch(const DispatchLaunch& launch, CudaContext& context);
void launch_written_dispatch(const DispatchLaunch& launch, CudaContext& context);

struct CombineLaunch {
  PeerView peers;
  ExpertHolders holders;
  const Bf16Bits* y = nullptr;
  std::int64_t first_own_row = 0;         ///< row of y with the output of this rank's first assignment
  const std::int32_t* experts = nullptr;  ///< one for each row of y; -1: there is none
  const std::int32_t* ids = nullptr;
  const Bf16Bits* shared = nullptr;  ///< null: there is none
  Bf16Bits* out = nullptr;
  std::int32_t num_tokens = 0;
  std::int32_t num_selected = 0;
  std::int32_t places = 0;
  std::int64_t width = 0;
  std::int32_t num_counters = 0;  ///< how many of PeerView::counters are to be cleared
};
void launch_staged_combine(const CombineLaunch& launch, CudaContext& context);
/// The second half of the former, where the outputs of this exchange are pushed by the kernels that make
/// them, as what `stage_vector` writes: those of this rank lie in `y`; `experts` is not read.
void launch_staged_sum(const CombineLaunch& launch, CudaContext& context);
void launch_read_combine(const CombineLaunch& launch, CudaContext& context);

/// Tokens of a block in kernels for many of them: a warp takes one.
inline constexpr int kBlockTokens = 32;
/// Blocks of such a kernel: at most one for each multiprocessor that the operation has.
[[nodiscard]] int blocks_for_many(std::int64_t num_tokens, const PeerView& peers, int num_sms);

/// Whether the outputs of so many places of a sender, rows of `width`, can be staged; and then all less. On
/// every rank the same. A token takes a block of a kernel.
[[nodiscard]] bool can_stage(const PeerView& peers, std::int64_t places, std::int64_t num_selected,
                             std::int64_t width);

/// What the arguments say, but for who the others are: `peers` has but this rank's place.
[[nodiscard]] DispatchLaunch dispatch_launch(const DispatchArgs& args, const CudaContext& context);
[[nodiscard]] CombineLaunch combine_launch(const CombineArgs& args);
/// What the dispatch leaves in `args.received`: places, `places` of each sender.
void note_places(const DispatchArgs& args, std::int64_t places);

void dispatch(const DispatchArgs& args, CudaContext& context);
void combine(const CombineArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Dispatch>> dispatch_variants();
[[nodiscard]] std::span<const CudaVariant<ops::Combine>> combine_variants();

}  // namespace baleen::BALEEN_ARCH
