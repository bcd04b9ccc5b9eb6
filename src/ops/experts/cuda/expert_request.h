/// Experts that the host's cores compute: who they are, and the question to the host.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/experts/experts.h"

namespace baleen::BALEEN_ARCH {

/// Whether the host computes some of the call's experts, which the device alone then knows
/// (`HostExpertState`): there are no tiles of those, and `combine_experts` takes their rows from the host.
[[nodiscard]] inline bool host_computes(const ExpertsArgs& args) {
  return args.places.slots.host.request != nullptr && args.sums == ExpertSums::kStated &&
         args.x.extent(0) <= kMaxHostTokens && args.ids.extent(0) * args.ids.extent(1) <= kMaxHostRows;
}

/// Queues on `stream`, where `host_computes`: of the experts away that tokens have, those that the host
/// computes faster than they would come are noted and requested. Before `fetch_chosen_experts` and before the
/// call's tokens are dispatched, behind all fetching for this block. `early`: `LaunchShape::early`.
void request_host_experts(const ExpertsArgs& args, const LaunchStream& stream, bool early);

}  // namespace baleen::BALEEN_ARCH
