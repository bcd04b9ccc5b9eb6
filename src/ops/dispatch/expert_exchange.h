/// Where experts lie on the ranks of a pipeline stage, and which rows go where: what dispatch and combine
/// share.  (source: parallel MoE 2, 8)
///
/// Ranks of a stage are numbered ep_index * moe_tp + moe_tp_index. Expert e of E lies on ep_index = e / (E /
/// ep) (linear placement), its inner width over the moe_tp ranks of that index.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/collectives/collective.h"

namespace baleen {

struct ExpertRanks {
  const RankGroup* stage = nullptr;  ///< all ranks that hold experts of a layer; ep moe_tp of them
  std::int64_t ep = 1;
  std::int64_t num_experts = 0;  ///< E, which ep divides

  [[nodiscard]] std::int64_t moe_tp() const { return stage->size() / ep; }
  [[nodiscard]] std::int64_t experts_per_rank() const { return num_experts / ep; }
  /// Of the first rank that holds `expert`; the others follow it.
  [[nodiscard]] std::int64_t place_of(std::int64_t expert) const {
    return expert / experts_per_rank() * moe_tp();
  }
  [[nodiscard]] std::int64_t first_expert() const { return stage->place / moe_tp() * experts_per_rank(); }
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
