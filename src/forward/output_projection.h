/// Heads to what attention returns: wo_a in groups, wo_b, and the sums over ranks that split them.
/// (source: forward pass 5.8, parallel MoE 2)
///
///     [all_gather or all_to_all, until a rank has whole groups of heads]
///     grouped_linear wo_a, linear wo_b
///     [all_reduce, or reduce_scatter and all_gather]
#pragma once

#include <cstdint>

#include "forward/pass.h"
#include "forward/pass_arrays.h"

namespace baleen {

struct OutputArrays {
  OutputArrays() = default;
  OutputArrays(const RankConfig& rank, ActivationArrays& arrays) : grouped(arrays.values(rank.o_dim())) {}

  /// The rows from `first` on.
  [[nodiscard]] OutputArrays from_row(std::int64_t first) const;

  Activations<2> grouped;  ///< [R, G R_o]
};

/// P = R x output_row_groups() rows, O = o_proj_tp. Arrays of no use to a rank's layout are empty.
struct OutputMessages {
  OutputMessages(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays);

  Activations<2> heads;    ///< [P, H c / O] for output groups of this rank; where heads are split otherwise
  Activations<2> grouped;  ///< [P, G R_o / O], likewise
};

/// Rows of `sums` that the output projection of steps of `max_rows` rows needs; 0: none.
[[nodiscard]] std::int64_t output_sum_rows(const RankLayout& layout, std::int64_t max_rows);

class OutputProjection {
 public:
  /// `sums`: [output_sum_rows, d] float32 at least, lent while `run` lasts; its rows may be in use elsewhere
  /// before and after.
  OutputProjection(const PassContext& context, ActivationArrays& arrays, MessageArrays& messages,
                   const Activations<2>& sums);

  /// From now on second micro-batches have the rows from `first` on.
  void cut(std::int64_t first) { arrays_.cut(first); }

  /// `attended`: [A, H c] of the A rows that the rank attends with. `f`: [R, d], of which the rows that it
  /// keeps are set, from row 0 on; where it keeps all, also the others of its group's batch.
  void run(std::int64_t block, const Pass& pass, const Activations<2>& attended, const Activations<2>& f);

 private:
  /// Heads of whole groups, gathered from ranks that have the others.
  [[nodiscard]] Activations<2> whole_groups(const Pass& pass, const Activations<2>& attended);
  void add_up(const Pass& pass, const Activations<2>& sums, const Activations<2>& f);

  PassContext context_;
  PerMicroBatch<OutputArrays> arrays_;
  OutputMessages messages_;
  Activations<2> sums_;
};

}  // namespace baleen
