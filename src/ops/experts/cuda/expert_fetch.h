/// Experts from outside the device's memory on their way to it: those that some token has, or is guessed to
/// have.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// SMs that the copies of chosen experts occupy; the rest compute meanwhile. 4 reach what 132 do: 49.7 GB/s
/// on an H100, 51 on an H200, of 54 and 55 that the copy engine moves (PCIe 5.0 x16).
inline constexpr int kFetchBlocks = 8;
/// SMs of copies by a guess: what the kernels of a token's experts, 128 blocks, leave.
inline constexpr int kGuessBlocks = 4;

/// Queues on `stream`: every expert of `args.places` outside the device's memory that a token has comes to
/// a slot or to the buffer, unless a slot has it; once, however many tokens have it. `copied` then says
/// where it is. Which those are, only the device knows. Where the host computes experts a request tells it
/// which first, and those are not fetched. `early`: `LaunchShape::early`.
void fetch_chosen_experts(const ExpertsArgs& args, const LaunchStream& stream, bool early);

/// Before products that wait for all experts: those that some token has come, those of a guess behind them,
/// on the branch, beside what follows. That leaves the guess's SMs alone until the next call: a grid as large
/// as the GPU would end with a few blocks that waited for them. (Among ranks, whose messages take SMs too, it
/// does not.)
void fetch_before_products(const ExpertsArgs& args, CudaContext& context);

/// Behind `fetch_before_products`: one list of tiles.
[[nodiscard]] ExpertsArgs all_on_device(ExpertsArgs args);

/// Queues on `stream`: experts on the host that `args.hints.next` names come to slots of that layer, until a
/// router sets `ExpertSlots::routed`. What has come by then stays; `fetch_chosen_experts` brings the rest of
/// those that are chosen.
void fetch_guessed_experts(const ExpertsArgs& args, const LaunchStream& stream);

}  // namespace baleen::BALEEN_ARCH
