/// Ranks that train one model together, each on its share of a step's micro-batches. Weights are the same on
/// all of them after each call that shares some, to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/tensor_homes.h"

namespace baleen {

/// All ranks make the same calls in the same order. With one rank nothing is sent.
class TrainingRanks {
 public:
  /// [begin, end)
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  /// One rank.
  TrainingRanks() = default;
  /// `group`: all ranks, of which the first one logs, evaluates prompts and writes files. `communicator`
  /// outlives this.
  TrainingRanks(Communicator& communicator, RankGroup group)
      : communicator_(&communicator), group_(std::move(group)) {}

  [[nodiscard]] std::int64_t rank() const { return group_.place; }
  [[nodiscard]] std::int64_t size() const { return group_.size(); }
  [[nodiscard]] bool is_first() const { return group_.place == 0; }

  /// Which of `count` parts are this rank's: equally many on all ranks, up to one.
  [[nodiscard]] Range share_of(std::int64_t count) const { return share_of(count, rank()); }

  /// values [count, width], of which each rank has set the rows of its share: all rows everywhere.
  void gather(std::int64_t count, std::span<double> values) const;
  /// values[i] += those of all other ranks, in the order of ranks.
  void add_to_all(std::span<double> values) const;
  /// Whether it holds on any rank.
  [[nodiscard]] bool any(bool holds) const;

  /// The gradients of each tensor, summed over ranks in the order of `SumTree` where its home is; those of
  /// other ranks are left undefined. Each value travels once. Memory: a piece of a tensor of each rank.
  void sum_at_homes(const TensorHomes& homes, Parameters<float>& gradients) const;
  /// Each tensor as its home has it.
  void share_from_homes(const TensorHomes& homes, Parameters<float>& weights) const;
  /// An array of one rank's on the first rank: `values` is read there and written here, equally long.
  void bring_to_first(std::int64_t from, std::span<float> values) const;

 private:
  [[nodiscard]] Range share_of(std::int64_t count, std::int64_t rank) const {
    return {count * rank / size(), count * (rank + 1) / size()};
  }

  Communicator* communicator_ = nullptr;
  RankGroup group_;
};

}  // namespace baleen
