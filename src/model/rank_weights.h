/// One rank's weights cut out of a whole model's: views of it where rows are cut, copies where columns are.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "model/config.h"
#include "model/rank_layout.h"
#include "model/weight_tree.h"

namespace baleen {

/// As `rank_share` has it; not movable, because the tree points into it.
class RankWeights {
 public:
  /// `config` and `whole` of the whole model; `whole` outlives this. `layout` can be run (`check_runnable`).
  RankWeights(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout);
  RankWeights(const RankWeights&) = delete;
  RankWeights& operator=(const RankWeights&) = delete;

  [[nodiscard]] const WeightTree& tree() const { return tree_; }
  /// What is not a view of the whole model's: columns that were cut out, and their scales.
  [[nodiscard]] std::int64_t copied_bytes() const;

 private:
  [[nodiscard]] AttentionWeights cut(const AttentionWeights& whole);
  [[nodiscard]] MoeWeights cut(const MoeWeights& whole);
  /// Part `place` of `parts` of the inner width.
  [[nodiscard]] ExpertWeights cut(const ExpertWeights& whole, std::int64_t parts, std::int64_t place);
  /// Columns [begin, end), multiples of 128, copied.
  [[nodiscard]] WeightMatrix columns(const WeightMatrix& whole, std::int64_t begin, std::int64_t end);

  const ModelConfig& config_;
  const RankLayout& layout_;
  RankShare share_;
  std::deque<std::vector<std::byte>> bytes_;
  std::deque<std::vector<float>> scales_;
  WeightTree tree_;
};

}  // namespace baleen
