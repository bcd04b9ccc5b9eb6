/// Weights in formats that GPUs' kernels multiply. Those of experts want a shared one in FP8 where the routed
/// ones are codes; linear layers take FP8 and BF16. Foreign files have dense matrices in others.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "model/weight_tree.h"
#include "parallel/thread_pool.h"

namespace baleen {

/// Not movable: the tree points into it.
class GpuFormats {
 public:
  /// Brings dense matrices of `tree` that kernels do not take to FP8, by the release's rule for scales: exact
  /// for what was made from FP8, rounded otherwise. `tree` outlives this. Throws `Error` for routed experts
  /// in a format that kernels do not take, for what would have to be FP8 in blocks of 32 x 32, and for
  /// weights that are not finite.
  GpuFormats(const WeightTree& tree, ThreadPool& pool);
  GpuFormats(const GpuFormats&) = delete;
  GpuFormats& operator=(const GpuFormats&) = delete;

  [[nodiscard]] const WeightTree& tree() const { return tree_; }
  /// What was changed, and by how much, for people; empty: nothing.
  [[nodiscard]] std::string text() const;

 private:
  struct Loss {
    double change = 0, value = 0, largest = 0;  ///< sums of magnitudes; largest change over the largest value
  };

  void bring_to_fp8(WeightMatrix& matrix, std::string_view name, ThreadPool& pool);

  WeightTree tree_;
  std::deque<std::vector<std::byte>> codes_;
  std::deque<std::vector<float>> scales_;
  std::int64_t num_matrices_ = 0, num_exact_ = 0;
  Loss loss_;
};

}  // namespace baleen
