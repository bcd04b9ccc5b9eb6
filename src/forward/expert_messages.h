/// Arrays for rows that ranks send to each other's experts, where tokens differ between ranks.
#pragma once

#include <cstdint>

#include "forward/pass_arrays.h"
#include "model/rank_config.h"
#include "model/rank_layout.h"

namespace baleen {

/// S: rows that all ranks of a stage may send to one; k': assignments of such a row, 1, or k where tokens
/// arrive. Arrays of no use to a rank's layout are empty.
struct ExpertMessages {
  ExpertMessages() = default;
  ExpertMessages(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays);
  /// Where `first` own rows and what `first_arrived` may come of them have gone before: the rest, as arrays
  /// of their own. `first_arrived` is a multiple of kScaleRows.
  [[nodiscard]] ExpertMessages from_row(std::int64_t first, std::int64_t first_arrived) const;

  Activations<2> arrived;  ///< [S, d] rows from other ranks
  Fp8Rows arrived_fp8;
  View<std::int32_t, 2> arrived_ids;  ///< [S, k']
  Activations<2> arrived_weights;     ///< [S, k'] float32
  Activations<2> outputs;             ///< [S, d] of experts, where these return; float32 where they are split
  Activations<2> shared;              ///< [R, d] likewise
  DispatchedRows received;
};

/// Rows of float32 sums that experts of steps of `max_rows` rows need, where ranks add them up; 0: none.
[[nodiscard]] std::int64_t expert_sum_rows(const RankConfig& rank, const RankLayout& layout,
                                           std::int64_t max_rows);

}  // namespace baleen
