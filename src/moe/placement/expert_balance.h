/// Which experts get copies and which rank holds which, from how many tokens chose each expert.
/// (source: parallel MoE 10, after deepseek-ai/EPLB)
///
///     pack       n items into bins of n / bins each: by falling weight, each into the lightest bin with room
///     replicate  one copy of each; then one more of the expert with the largest weight per copy, and so on
///     place      pack groups of experts into nodes; replicate within each node; pack the copies, each with
///                its share of the expert's weight, onto the node's ranks
///
/// Ties go to the lower index. Nothing here is random: all ranks get the same map from the same load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/dispatch/expert_map.h"

namespace baleen {

/// What a layer's experts are spread over.
struct BalanceShape {
  std::int64_t num_slots = 0;   ///< P >= the number of experts; a multiple of num_ranks
  std::int64_t num_ranks = 1;   ///< a multiple of num_nodes
  std::int64_t num_nodes = 1;   ///< that ranks are on, as many on each
  std::int64_t num_groups = 1;  ///< groups of consecutive experts, as many in each, which stay on one node
};

/// A map for `load` [E], tokens that chose each expert, none negative. Hierarchical where nodes divide
/// groups; otherwise global, which is one group and one node. Throws `Error` for a shape that cannot be.
/// Cost: O(P E + P ranks).
[[nodiscard]] ExpertMap balanced_map(std::span<const double> load, const BalanceShape& shape);

/// `map` with its ranks renamed and their slots in another order, so that experts stay where `now` has them
/// as far as a greedy choice finds it: the two ranks that have most in common become one, and so on. Loads of
/// ranks only change places. Both maps have as many slots, ranks and experts.
/// Cost: O(ranks^2 (slots of a rank + log ranks)).
[[nodiscard]] ExpertMap settled(const ExpertMap& map, const ExpertMap& now);

/// Experts that a rank has under `to` and not under `from`, summed over ranks.
[[nodiscard]] std::int64_t num_moved(const ExpertMap& from, const ExpertMap& to);

/// Tokens of each rank under `map`, an expert's shared out evenly over its copies.
[[nodiscard]] std::vector<double> rank_loads(const ExpertMap& map, std::span<const double> load);

/// Mean over maximum of `loads`: 1 where all are equal, also where all are 0.
[[nodiscard]] double balancedness(std::span<const double> loads);

}  // namespace baleen
