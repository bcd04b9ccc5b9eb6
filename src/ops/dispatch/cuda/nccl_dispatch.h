/// Dispatch and combine over NCCL, for ranks of several hosts. Assignments have the places of dispatch.h.
///
///     dispatch   rows of all tokens, packed with ids and weights, to all ranks: each copies a row to the
///                places of its own experts
///     combine    the outputs of all places of a sender return to it; it adds up those of its experts
///
/// No size depends on the routing, so captured steps have both. Steps of more tokens than any graph return
/// the outputs that there are: the host waits for their numbers, which both ends can count. What arrives lies
/// in the buffer of `NcclRank`; what it has no room for goes in pieces, as many on all ranks.
#pragma once

#include "ops/dispatch/cuda/dispatch.h"

namespace baleen::BALEEN_ARCH {

/// A token as it travels: its row (FP8 codes and scales, or BF16 values), then k physical ids, or -1, and k
/// weights; a multiple of 16 bytes.
struct PackedTokens {
  DispatchLaunch dispatch;       ///< `peers` has but this rank's place
  std::int32_t num_members = 1;  ///< members of the stage
  std::int64_t row_bytes = 0, token_bytes = 0;
  std::byte* packed = nullptr;  ///< [members, num_packed, token_bytes]
  std::int32_t first_token = 0;
  std::int32_t num_packed = 0;  ///< tokens of each member in this piece; own ones may end before
};
void launch_pack_tokens(const PackedTokens& tokens, CudaContext& context);
void launch_place_tokens(const PackedTokens& tokens, CudaContext& context);

/// Outputs as they return.
struct ReturnedOutputs {
  CombineLaunch combine;              ///< `peers` has but this rank's place
  const Bf16Bits* arrived = nullptr;  ///< [members, num_tokens k, width]; this rank's are in y
  std::int32_t first_token = 0;
  std::int32_t num_tokens = 0;  ///< what a sender has in this piece
};
void launch_add_returned(const ReturnedOutputs& outputs, CudaContext& context);

/// Outputs that return one behind the other, in order of assignment, by pieces of tokens.
struct CountedOutputs {
  CombineLaunch combine;         ///< `peers` has but this rank's place
  std::int32_t num_members = 1;  ///< members of the stage
  std::int32_t piece_tokens = 0, num_pieces = 0;
  std::int32_t* sent_places = nullptr;   ///< [members, places] of a row among those of its piece and member
  std::int32_t* taken_places = nullptr;  ///< [places] of an assignment among those of its piece and holder
  /// [pieces, 2, members] rows that go to each member and that come from it; of this rank 0.
  std::int32_t* counts = nullptr;
  Bf16Bits* sent = nullptr;     ///< members one behind the other
  Bf16Bits* arrived = nullptr;  ///< likewise

  /// Of the rows of `member` in `counts`, how many are before it.
  [[nodiscard]] constexpr std::int64_t before(std::int32_t piece, int direction, int member) const {
    std::int64_t sum = 0;
    for (int i = 0; i < member; ++i) sum += counts[(piece * 2 + direction) * num_members + i];
    return sum;
  }
};
void launch_count_outputs(const CountedOutputs& outputs, CudaContext& context);
void launch_pack_outputs(const CountedOutputs& outputs, std::int32_t piece, CudaContext& context);
void launch_add_counted(const CountedOutputs& outputs, std::int32_t piece, CudaContext& context);

void nccl_dispatch(const DispatchArgs& args, CudaContext& context);
void nccl_combine(const CombineArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Dispatch>> nccl_dispatch_variants();
[[nodiscard]] std::span<const CudaVariant<ops::Combine>> nccl_combine_variants();

}  // namespace baleen::BALEEN_ARCH
