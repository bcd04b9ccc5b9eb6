#include "moe/placement/expert_balance.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"

namespace baleen {
namespace {

using Indices = std::vector<std::int32_t>;

/// Items of each bin in the order in which they were put there.
std::vector<Indices> pack(std::span<const double> weight, std::int64_t num_bins) {
  const std::int64_t room = std::ssize(weight) / num_bins;
  std::vector<Indices> bins(static_cast<std::size_t>(num_bins));
  Indices items(weight.size());
  std::iota(items.begin(), items.end(), 0);
  const auto weight_of = [&](std::int32_t item) { return weight[static_cast<std::size_t>(item)]; };
  // With one item a bin any order is as good, and this one moves nothing.
  if (room > 1) std::ranges::stable_sort(items, std::ranges::greater(), weight_of);
  std::vector<double> filled(bins.size());
  for (const std::int32_t item : items) {
    std::size_t lightest = bins.size();
    for (std::size_t bin = 0; bin < bins.size(); ++bin) {
      if (std::ssize(bins[bin]) == room) continue;
      const bool better = lightest == bins.size() || (room > 1 && filled[bin] < filled[lightest]);
      if (better) lightest = bin;
    }
    bins[lightest].push_back(item);
    filled[lightest] += weight_of(item);
  }
  return bins;
}

/// Items of `num_copies` slots: all of them once, then further copies in the order in which they were added.
Indices replicate(std::span<const double> weight, std::int64_t num_copies) {
  Indices copies(weight.size());
  std::iota(copies.begin(), copies.end(), 0);
  std::vector<double> share(weight.begin(), weight.end()), count(weight.size(), 1);
  while (std::ssize(copies) < num_copies) {
    const auto item = static_cast<std::size_t>(std::ranges::max_element(share) - share.begin());
    copies.push_back(static_cast<std::int32_t>(item));
    share[item] = weight[item] / ++count[item];
  }
  return copies;
}

void check_shape(std::int64_t num_experts, const BalanceShape& s) {
  if (s.num_ranks < 1 || s.num_nodes < 1 || s.num_groups < 1 || num_experts < 1)
    fail("balance of experts: {} experts in {} groups, {} ranks, {} nodes: each is 1 at least", num_experts,
         s.num_groups, s.num_ranks, s.num_nodes);
  if (s.num_slots < num_experts || s.num_slots % s.num_ranks != 0) {
    fail(
        "balance of experts: {} slots for {} experts on {} ranks; one for each expert at least and as many "
        "on each rank",
        s.num_slots, num_experts, s.num_ranks);
  }
  if (s.num_ranks % s.num_nodes != 0)
    fail("balance of experts: {} ranks cannot be shared out evenly over {} nodes", s.num_ranks, s.num_nodes);
  if (num_experts % s.num_groups != 0)
    fail("balance of experts: {} experts cannot be cut into {} groups", num_experts, s.num_groups);
}

/// Appends the slots of one node, whose experts are `own`.
void place_on_node(Indices& slots, std::span<const double> load, const Indices& own, std::int64_t num_slots,
                   std::int64_t num_ranks) {
  std::vector<double> weight, count(own.size());
  for (const std::int32_t expert : own) weight.push_back(load[static_cast<std::size_t>(expert)]);
  const Indices copies = replicate(weight, num_slots);
  for (const std::int32_t copy : copies) ++count[static_cast<std::size_t>(copy)];
  std::vector<double> share;
  for (const std::int32_t copy : copies) {
    const auto at = static_cast<std::size_t>(copy);
    share.push_back(weight[at] / count[at]);
  }
  for (const Indices& rank : pack(share, num_ranks)) {
    for (const std::int32_t item : rank)
      slots.push_back(own[static_cast<std::size_t>(copies[static_cast<std::size_t>(item)])]);
  }
}

Indices sorted(std::span<const std::int32_t> experts) {
  Indices result(experts.begin(), experts.end());
  std::ranges::sort(result);
  return result;
}

/// A rank's slots: experts that it has `now` stay in their slots, the others fill the rest.
void keep_slots(std::span<std::int32_t> slots, std::span<const std::int32_t> experts,
                std::span<const std::int32_t> now) {
  Indices left(experts.begin(), experts.end());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto found = std::ranges::find(left, now[slot]);
    if (found == left.end()) continue;
    slots[slot] = *found;
    left.erase(found);
  }
  auto next = left.begin();
  for (std::int32_t& slot : slots) {
    if (slot == ExpertMap::kEmpty && next != left.end()) slot = *next++;
  }
}

}  // namespace

ExpertMap balanced_map(std::span<const double> load, const BalanceShape& shape) {
  const std::int64_t num_experts = std::ssize(load);
  check_shape(num_experts, shape);
  const bool hierarchical = shape.num_groups % shape.num_nodes == 0;
  const std::int64_t groups = hierarchical ? shape.num_groups : 1, nodes = hierarchical ? shape.num_nodes : 1;
  const std::int64_t group_size = num_experts / groups;
  std::vector<double> group_load;
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto first = load.begin() + group * group_size;
    group_load.push_back(std::accumulate(first, first + group_size, 0.0));
  }
  Indices slots;
  for (const Indices& node : pack(group_load, nodes)) {
    Indices own;
    for (const std::int32_t group : node) {
      for (std::int64_t i = 0; i < group_size; ++i)
        own.push_back(static_cast<std::int32_t>(group * group_size + i));
    }
    place_on_node(slots, load, own, shape.num_slots / nodes, shape.num_ranks / nodes);
  }
  return {std::move(slots), num_experts, shape.num_ranks};
}

ExpertMap settled(const ExpertMap& map, const ExpertMap& now) {
  const std::int64_t per_rank = map.slots_per_rank(), num_ranks = map.num_slots() / per_rank;
  struct Pair {
    std::int64_t in_common, rank, renamed;  // `renamed` of `map` becomes `rank`
  };
  std::vector<Pair> pairs;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    const Indices here = sorted(now.local_to_logical(rank));
    for (std::int64_t renamed = 0; renamed < num_ranks; ++renamed) {
      Indices both;
      std::ranges::set_intersection(here, sorted(map.local_to_logical(renamed)), std::back_inserter(both));
      pairs.push_back({std::ssize(both), rank, renamed});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::in_common);
  Indices slots(static_cast<std::size_t>(map.num_slots()), ExpertMap::kEmpty);
  std::vector<bool> has_name(static_cast<std::size_t>(num_ranks)), is_named(has_name.size());
  for (const auto& [in_common, rank, renamed] : pairs) {
    if (has_name[static_cast<std::size_t>(rank)] || is_named[static_cast<std::size_t>(renamed)]) continue;
    has_name[static_cast<std::size_t>(rank)] = is_named[static_cast<std::size_t>(renamed)] = true;
    keep_slots(std::span(slots).subspan(static_cast<std::size_t>(rank * per_rank),
                                        static_cast<std::size_t>(per_rank)),
               map.local_to_logical(renamed), now.local_to_logical(rank));
  }
  return {std::move(slots), map.num_experts(), num_ranks};
}

std::int64_t num_moved(const ExpertMap& from, const ExpertMap& to) {
  std::int64_t count = 0;
  for (std::int64_t rank = 0; rank < to.num_slots() / to.slots_per_rank(); ++rank) {
    const Indices had = sorted(from.local_to_logical(rank));
    Indices has = sorted(to.local_to_logical(rank)), got;
    has.erase(std::unique(has.begin(), has.end()), has.end());
    std::ranges::set_difference(has, had, std::back_inserter(got));
    count += std::ssize(got);
  }
  return count;
}

std::vector<double> rank_loads(const ExpertMap& map, std::span<const double> load) {
  std::vector<double> loads(static_cast<std::size_t>(map.num_slots() / map.slots_per_rank()));
  for (std::int64_t expert = 0; expert < map.num_experts(); ++expert) {
    const std::span<const std::int32_t> replicas = map.replicas(expert);
    for (const std::int32_t slot : replicas) {
      loads[static_cast<std::size_t>(slot / map.slots_per_rank())] +=
          load[static_cast<std::size_t>(expert)] / static_cast<double>(replicas.size());
    }
  }
  return loads;
}

double balancedness(std::span<const double> loads) {
  const double most = std::ranges::max(loads);
  if (most <= 0) return 1;
  return std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size()) / most;
}

}  // namespace baleen
