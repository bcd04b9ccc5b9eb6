/// Experts of the host's memory on their way to the device's, those alone that some token has.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::sm90 {

/// SMs that the copies occupy. 4 with 128 KB in flight reach the 51 GB/s that all 132 do, of 55 that the copy
/// engine does (H200, PCIe 5.0 x16); the rest compute meanwhile.
inline constexpr int kCopyBlocks = 8;

/// Queues on `stream`: every expert of `args.places` that a token has is copied from its place to where
/// `copied` says, if that is another; once, however many tokens have it. Which those are, only the device
/// knows. `early`: `LaunchShape::early`.
void copy_chosen_experts(const ExpertsArgs& args, CUstream_st* stream, bool early);

}  // namespace baleen::sm90
