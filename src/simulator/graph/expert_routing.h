/// How many different experts the tokens of a step choose, where experts are not chosen evenly.
#pragma once

#include <cstdint>
#include <vector>

namespace baleen {

class ExpertRouting {
 public:
  /// Each token chooses `num_chosen` different experts of `num_experts`, one after the other; the expert of
  /// rank r has a weight of 1 / (r + 1)^zipf. 0: all the same.
  ExpertRouting(std::int64_t num_experts, std::int64_t num_chosen, double zipf);

  /// Expected number of different experts that `num_tokens` tokens choose, of ranks [begin, end): the
  /// fraction of a rank counts as much of its expert.
  [[nodiscard]] double distinct(double begin, double end, double num_tokens) const;
  /// Of all.
  [[nodiscard]] double distinct(double num_tokens) const;
  /// The same as a share of all experts.
  [[nodiscard]] double distinct_share(double num_tokens) const;
  /// Probability that a token has the expert of this rank among its experts; these add up to `num_chosen`.
  [[nodiscard]] double share(std::int64_t rank) const { return shares_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<double> shares_;  ///< sorted by falling use
  bool even_ = false;           ///< all of them equal
};

}  // namespace baleen
