/// Where experts lie on the ranks of a pipeline stage, and which rows go where: what dispatch and combine
/// share.  (source: parallel MoE 2, 8)
///
/// Ranks of a stage are numbered ep_index * moe_tp + moe_tp_index. The slot of physical id p of P lies on
/// ep_index = p / (P / ep), the inner width of its expert over the moe_tp ranks of that index.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/collectives/collective.h"
#include "ops/dispatch/expert_map.h"

namespace baleen {

struct ExpertRanks {
  const RankGroup* stage = nullptr;  ///< all ranks that hold experts of a layer; ep moe_tp of them
  std::int64_t ep = 1;
  std::int64_t num_experts = 0;         ///< E, which ep divides where there is no map
  const ExpertMap* map = nullptr;       ///< null: linear, one copy of each, so physical ids are logical ids
  const std::int32_t* table = nullptr;  ///< `map->table()` where kernels read it; for devices that need it

  [[nodiscard]] std::int64_t moe_tp() const { return stage->size() / ep; }
  /// Slots of a rank.
  [[nodiscard]] std::int64_t experts_per_rank() const {
    return map != nullptr ? map->slots_per_rank() : num_experts / ep;
  }
  /// Physical id that computes `slot` of `row` of `ids`, which are logical; -1 where that has no expert.
  [[nodiscard]] std::int32_t physical(const View<const std::int32_t, 2>& ids, std::int64_t row,
                                      std::int64_t slot) const {
    const std::int32_t expert = ids(row, slot);
    return map == nullptr || expert < 0 ? expert : map->slot_for(expert, row * ids.extent(1) + slot);
  }
  /// Of the first rank that has the slot of this physical id; the others follow it.
  [[nodiscard]] std::int64_t place_of(std::int64_t physical_id) const {
    return physical_id / experts_per_rank() * moe_tp();
  }
  [[nodiscard]] std::int64_t ep_index() const { return stage->place / moe_tp(); }
  /// Physical id of this rank's first slot.
  [[nodiscard]] std::int64_t first_expert() const { return ep_index() * experts_per_rank(); }
  /// Logical id of the expert in this rank's slot of local id `local`.
  [[nodiscard]] std::int64_t logical(std::int64_t local) const {
    return map != nullptr ? map->local_to_logical(ep_index())[static_cast<std::size_t>(local)]
                          : first_expert() + local;
  }
};

/// A token-expert assignment that goes to a rank.
struct SentRow {
  std::int64_t row = 0;
  std::int64_t slot = 0;
};

/// What this rank sends to the member at `place`, by rising row and slot.
[[nodiscard]] std::vector<SentRow> rows_for(const ExpertRanks& placement,
                                            const View<const std::int32_t, 2>& ids, std::int64_t place);

/// What a dispatch brought: rows of member 0, then of member 1, and so on.
struct DispatchedRows {
  std::int64_t num_rows = 0;            ///< set before the call to what is expected, for who does not run it
  std::vector<std::int64_t> rows_from;  ///< [ranks of the stage]
  /// [num_rows] in the device's memory, where rows have fixed places: their experts, -1 where no row came.
  const std::int32_t* experts = nullptr;
};

/// Of `num_chosen` of `num_experts` experts, on how many of `num_ranks` ranks they lie on average.
[[nodiscard]] double expected_ranks(double num_experts, double num_ranks, double num_chosen);

}  // namespace baleen
