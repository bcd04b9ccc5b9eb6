#include "ops/dispatch/expert_map.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace baleen {
namespace {

/// The expert with the fewest copies, of those that a rank does not hold where there are any; ties: the
/// lowest id.
std::size_t next_copy(const std::vector<std::int64_t>& num_copies, const std::vector<bool>& is_held) {
  std::size_t best = 0;
  for (std::size_t expert = 1; expert < num_copies.size(); ++expert) {
    if (std::pair(bool{is_held[expert]}, num_copies[expert]) <
        std::pair(bool{is_held[best]}, num_copies[best]))
      best = expert;
  }
  return best;
}

}  // namespace

ExpertMap::ExpertMap(std::vector<std::int32_t> physical_to_logical, std::int64_t num_experts,
                     std::int64_t num_ranks)
    : slots_(std::move(physical_to_logical)), replicas_(static_cast<std::size_t>(num_experts)) {
  if (num_ranks < 1 || num_slots() % num_ranks != 0)
    fail("expert map: {} slots cannot be shared out evenly over {} ranks", num_slots(), num_ranks);
  slots_per_rank_ = num_slots() / num_ranks;
  for (std::int32_t slot = 0; slot < num_slots(); ++slot) {
    const std::int32_t expert = slots_[static_cast<std::size_t>(slot)];
    if (expert == kEmpty) continue;
    if (expert < 0 || expert >= num_experts)
      fail("expert map: slot {} holds expert {}; 0 to {} are possible", slot, expert, num_experts - 1);
    replicas_[static_cast<std::size_t>(expert)].push_back(slot);
  }
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    if (replicas(expert).empty()) fail("expert map: no slot holds expert {}", expert);
  }
}

ExpertMap ExpertMap::placed(ExpertOrder order, std::int64_t num_experts, std::int64_t num_redundant,
                            std::int64_t num_ranks) {
  const std::int64_t slots = (num_experts + num_redundant + num_ranks - 1) / num_ranks;
  BALEEN_CHECK(num_redundant == 0 || (num_experts + num_redundant) % num_ranks == 0);
  std::vector<std::vector<std::int32_t>> of_rank(static_cast<std::size_t>(num_ranks));
  const std::int64_t least = num_experts / num_ranks, num_larger = num_experts % num_ranks;
  for (std::int32_t expert = 0; expert < num_experts; ++expert) {
    const std::int64_t in_larger = num_larger * (least + 1);
    const std::int64_t linear = expert < in_larger
                                    ? expert / (least + 1)
                                    : num_larger + (expert - in_larger) / std::max<std::int64_t>(1, least);
    const std::int64_t rank = order == ExpertOrder::kLinear ? linear : expert % num_ranks;
    of_rank[static_cast<std::size_t>(rank)].push_back(expert);
  }
  std::vector<std::int64_t> num_copies(static_cast<std::size_t>(num_experts), 1);
  std::vector<std::int32_t> physical_to_logical;
  for (std::vector<std::int32_t>& held : of_rank) {
    std::vector<bool> is_held(num_copies.size());
    for (const std::int32_t expert : held) is_held[static_cast<std::size_t>(expert)] = true;
    while (num_redundant > 0 && std::ssize(held) < slots) {
      const std::size_t expert = next_copy(num_copies, is_held);
      held.push_back(static_cast<std::int32_t>(expert));
      is_held[expert] = true;
      ++num_copies[expert];
    }
    held.resize(static_cast<std::size_t>(slots), kEmpty);
    physical_to_logical.insert(physical_to_logical.end(), held.begin(), held.end());
  }
  return {std::move(physical_to_logical), num_experts, num_ranks};
}

std::int32_t ExpertMap::slot_for(std::int32_t expert, std::int64_t index) const {
  const std::span<const std::int32_t> slots = replicas(expert);
  return slots[static_cast<std::size_t>(copy_of(index, std::ssize(slots)))];
}

std::vector<std::int32_t> ExpertMap::table() const {
  std::vector<std::int32_t> table(static_cast<std::size_t>(num_experts() + 1 + num_slots()), kEmpty);
  std::int64_t next = num_experts() + 1;
  for (std::int64_t expert = 0; expert < num_experts(); ++expert) {
    table[static_cast<std::size_t>(expert)] = static_cast<std::int32_t>(next);
    for (const std::int32_t slot : replicas(expert)) table[static_cast<std::size_t>(next++)] = slot;
  }
  table[static_cast<std::size_t>(num_experts())] = static_cast<std::int32_t>(next);
  return table;
}

}  // namespace baleen
