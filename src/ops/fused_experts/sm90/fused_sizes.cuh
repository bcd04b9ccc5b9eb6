/// What the shapes of the products kernel have in common where rows come and outputs go.
#pragma once

#include "comm/peer/peer_exchange.cuh"
#include "ops/experts/sm90/expert_products.cuh"
#include "ops/experts/sm90/expert_shapes.cuh"

namespace baleen::sm90 {

template <class Sizes>
struct ExchangedSizes : Sizes {
  static constexpr bool kExchanges = true;
  static constexpr int kPlannedTiles = 0;
  __device__ static void put_output(uint4* to, const uint4& words) { stage_vector(to, words); }
};

}  // namespace baleen::sm90
