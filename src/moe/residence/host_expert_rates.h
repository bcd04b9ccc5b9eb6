/// What experts outside the GPU's memory take by either way, as it was seen: kernels split them by it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/experts/expert_places.h"
#include "ops/experts/expert_split.h"

namespace baleen {

/// Not thread-safe.
class HostExpertRates {
 public:
  /// `measured` at start.
  explicit HostExpertRates(const HostExpertTimes& measured)
      : measured_(measured), fetch_piece_(measured.fetch_piece), hand_over_(measured.hand_over) {}

  /// The host took so long for a request.
  void computed(std::int64_t num_experts, std::int64_t num_rows, double ns) {
    const double expected = static_cast<double>(num_experts) * measured_.compute_expert +
                            static_cast<double>(num_rows - num_experts) * measured_.compute_row;
    if (expected > 0) move(compute_scale_, ns / expected);
  }
  /// A fetch took so long.
  void fetched(std::int64_t num_pieces, double ns) {
    if (num_pieces > 0) move(fetch_piece_, ns / static_cast<double>(num_pieces));
  }
  /// What a request took beside the experts' own time.
  void handed_over(double ns) { move_by(hand_over_, ns); }
  /// What the GPU did beside the fetch until it wanted a request's rows.
  void beside_fetch(double ns) { move_by(beside_fetch_, ns); }
  // What is not seen for a while returns to what was measured at start: a way that was slow for a moment, so
  // that nothing goes it any more, is tried again.
  void not_computed() { compute_scale_ += kReturn * (1 - compute_scale_); }
  void not_fetched() { fetch_piece_ += kReturn * (measured_.fetch_piece - fetch_piece_); }

  [[nodiscard]] HostExpertTimes times() const {
    return {.fetch_piece = whole(fetch_piece_),
            .compute_expert = whole(compute_scale_ * measured_.compute_expert),
            .compute_row = whole(compute_scale_ * measured_.compute_row),
            .hand_over = static_cast<std::int32_t>(hand_over_ - beside_fetch_)};
  }

  /// Share of what is seen that each average takes.
  static constexpr double kWeight = 1.0 / 16;
  static constexpr double kReturn = 1.0 / 64;
  /// What one sight is taken for at most, in averages so far: a processor that was busy elsewhere for a
  /// moment says little of the next request.
  static constexpr double kMaxRatio = 4;

 private:
  static void move(double& average, double seen) {
    average += kWeight * (std::min(seen, kMaxRatio * average) - average);
  }
  /// Of times that do not grow with the experts.
  static void move_by(double& average, double seen) {
    constexpr double kMaxStep = 100'000;  // ns beyond the average that one sight is taken for
    average += kWeight * (std::clamp(seen, 0.0, average + kMaxStep) - average);
  }
  static std::uint32_t whole(double ns) { return static_cast<std::uint32_t>(std::clamp(ns, 1.0, 4e9)); }

  HostExpertTimes measured_;
  double compute_scale_ = 1;  ///< times what was measured at start
  double fetch_piece_;
  double hand_over_;
  double beside_fetch_ = 0;
};

/// How many times as long a layer of one token waits for `num_experts` experts in the host's memory, of
/// `num_pieces` each, that are all fetched as for the best split of them.
inline double gain_of_computing(std::int64_t num_experts, std::int32_t num_pieces,
                                const HostExpertTimes& times) {
  std::vector<SplitExpert> experts;
  for (std::int32_t i = 0; i < num_experts; ++i)
    experts.push_back({.expert = i, .num_rows = 1, .num_pieces = num_pieces, .on_disk = false});
  const auto time = [&](const SplitExpert* first_computed) {
    return split_time(experts.data(), static_cast<int>(experts.size()), first_computed, times);
  };
  const SplitTime all_fetched = time(nullptr);
  SplitTime best = all_fetched;
  for (const SplitExpert& expert : experts) best.word = std::min(best.word, time(&expert).word);
  return best.ns() == 0 ? 1 : static_cast<double>(all_fetched.ns()) / static_cast<double>(best.ns());
}

}  // namespace baleen
