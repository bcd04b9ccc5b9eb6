/// Which rank updates which tensor: it alone has the optimiser's state of it. (source: training 4.4)
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/graph/parameters.h"
#include "trainer/optimiser/parameter_groups.h"

namespace baleen {

struct TensorHomes {
  std::vector<std::int64_t> of_tensor;            ///< the rank; -1: the optimiser does not update it
  std::vector<std::vector<std::size_t>> of_rank;  ///< tensors of each rank, the largest first
};

/// Each to the rank that has least to compute so far, the most expensive tensor first: a function of its
/// arguments, the same on every rank.
[[nodiscard]] TensorHomes tensor_homes(const std::vector<TensorSpec>& table,
                                       const std::vector<ParameterGroup>& groups, std::int64_t num_ranks);

/// Of a tensor's update: under Muon newton_schulz.h's for each matrix, under AdamW 10 a value.
[[nodiscard]] double update_flops(const TensorSpec& tensor, const ParameterGroup& group);

}  // namespace baleen
