/// Dual-batch overlap: which steps are cut in two micro-batches, where, and for which plans.
/// (source: parallel MoE 7.2)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/parallel_plan.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// From how many rows on a step is cut, so that one part computes while the messages of the other are under
/// way. Rows of the rank that has most; 0: never. All ranks have the same.
struct BatchOverlap {
  /// From where cutting a step costs little: on two H100s a prompt's step of 8,192 rows took 6% longer in two
  /// parts, of 4,096 13, of 2,048 34, of 1,024 49 (bench/results/overlap-h100-x2.csv: two micro-batches with
  /// messages beside, against the shared expert beside dispatch).
  static constexpr std::int64_t kLeastPromptRows = 4096;

  std::int64_t least_prompt_rows = kLeastPromptRows;  ///< for steps with rows of prompts, on any rank
  std::int64_t least_decode_rows = 0;                 ///< limit for other steps
  std::int64_t most_decode_tokens = 1;  ///< tokens that a sequence has in a step; with more it is a prompt's
};

/// Rows for which there have to be buffers where steps of up to `max_rows` are cut: half of them for each
/// part.
[[nodiscard]] std::int64_t rows_of_two_batches(std::int64_t max_rows);

/// Where a batch is cut in two parts of at most `most_rows` rows, which holds half of its rows: at the
/// sequence boundary nearest to its middle if that is within an eighth of its rows, otherwise in the middle.
/// O(slices).
[[nodiscard]] std::int64_t middle_of(const RaggedBatch& batch, std::int64_t most_rows);

/// Why ranks of a resolved plan cannot run two micro-batches; none: they can.
[[nodiscard]] std::optional<std::string> overlap_violation(const ParallelPlan& plan);

}  // namespace baleen
