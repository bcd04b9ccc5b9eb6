/// Which routed experts lie in the GPU's memory, which in the host's and which on disk. Policy alone: it
/// knows no addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/experts/expert_places.h"

namespace baleen {

/// Nearest first.
enum class ExpertLevel : std::uint8_t { kDevice, kHost, kDisk };

/// How many experts there are, and how many of them lie outside the GPU's memory.
struct ExpertCounts {
  std::int64_t num_blocks = 0;
  std::int64_t num_experts = 0;  ///< experts that a block has
  std::int64_t num_on_host = 0;  ///< experts of all blocks that lie there
  std::int64_t num_on_disk = 0;  ///< experts of all blocks that lie in the checkpoint's files alone
  /// Places in the GPU's memory, of each block, that keep experts which came from outside it.
  std::int64_t num_slots = 0;
  std::int64_t num_selected = 0;  ///< experts of a token; of use where there are slots
  /// Where these are the experts of one rank among others: those of a block on all ranks, among which a token
  /// chooses; 0: `num_experts`.
  std::int64_t num_routed = 0;
  std::int64_t num_groups = 1;  ///< data-parallel groups: the smallest step has a token of each

  [[nodiscard]] std::int64_t num_in_all() const { return num_blocks * num_experts; }
  [[nodiscard]] std::int64_t num_away() const { return num_on_host + num_on_disk; }
  [[nodiscard]] std::int64_t num_on_device() const { return num_in_all() - num_away(); }
  /// Outside the GPU's memory, at most, of one block.
  [[nodiscard]] std::int64_t most_away_of_a_block() const {
    return num_blocks == 0 ? 0 : (num_away() + num_blocks - 1) / num_blocks;
  }
  /// Share of all experts outside the GPU's memory.
  [[nodiscard]] double share_away() const {
    return num_in_all() == 0 ? 0 : static_cast<double>(num_away()) / static_cast<double>(num_in_all());
  }
  [[nodiscard]] std::int64_t num_to_choose_from() const { return num_routed > 0 ? num_routed : num_experts; }
  /// Places of the two buffers for copies of a block's experts.
  [[nodiscard]] std::int64_t num_buffer_places() const { return 2 * most_away_of_a_block(); }
  /// Those of them, the first ones, that a step of `num_rows` tokens may copy to by its kernels. What other
  /// groups' tokens choose is not known.
  [[nodiscard]] std::int64_t num_buffer_places_for(std::int64_t num_rows) const {
    const std::int64_t most = most_away_of_a_block();
    return num_groups > 1 || num_selected == 0 ? most : std::min(most, num_rows * num_selected);
  }
  /// Experts of the host's memory that the other places hold between steps of many tokens.
  [[nodiscard]] std::int64_t most_cached(std::int64_t num_rows) const {
    return std::min(num_on_host, num_buffer_places() - num_buffer_places_for(num_rows));
  }
  bool operator==(const ExpertCounts&) const = default;
};

/// Slots that each block should have: as many as the experts that a step of one token (of each data-parallel
/// group) finds outside the GPU's memory in a block on the average, so that what came for one step is there
/// for the next, and one for a guess. At most kMaxSlotsOfBlock, and no more than a block has experts away.
[[nodiscard]] std::int64_t suitable_slots(const ExpertCounts& counts);

/// Experts of a block that a step of `num_rows` tokens takes from outside the GPU's memory, on the average
/// over blocks, where each token chooses `counts.num_selected` of them, all with the same probability and
/// independently: what slots spare is not considered.
[[nodiscard]] double expected_fetches(const ExpertCounts& counts, std::int64_t num_rows);

/// Two experts of a block at different levels that change places.
struct ExpertSwap {
  std::int64_t block = 0;
  std::int64_t promoted = 0;  ///< to the nearer level
  std::int64_t demoted = 0;   ///< from there
  bool operator==(const ExpertSwap&) const = default;
};

/// Every block keeps its number of experts at each level: a step meets those that are away evenly, layer
/// after layer.
class ExpertPlacement {
 public:
  /// Those on the host and on disk are spread evenly over the blocks; of each block those of the highest ids,
  /// the ones on disk last.
  explicit ExpertPlacement(const ExpertCounts& counts);

  [[nodiscard]] const ExpertCounts& counts() const { return counts_; }
  [[nodiscard]] ExpertLevel level(std::int64_t block, std::int64_t expert) const {
    return levels_[static_cast<std::size_t>(block)][static_cast<std::size_t>(expert)];
  }
  [[nodiscard]] bool on_device(std::int64_t block, std::int64_t expert) const {
    return level(block, expert) == ExpertLevel::kDevice;
  }

  /// `use`: tokens that chose each expert, for every block. The swaps that help most, at most `most` of them,
  /// each expert in one at most: the most used expert outside the GPU's memory against the least used one in
  /// it, then of what is left on disk against what is on the host, where that is used clearly less.
  [[nodiscard]] std::vector<ExpertSwap> improvements(std::span<const std::vector<double>> use,
                                                     std::int64_t most) const;
  void apply(const ExpertSwap& swap);

  /// An expert has to be used more than so many times as often as the one it replaces: what is measured
  /// varies, and a swap that is taken back later costs two copies each way.
  static constexpr double kGain = 1.25;
  /// And by so many standard deviations of two equal counts' difference: of 11,000 experts that are used
  /// alike, some are three and more apart by chance.
  static constexpr double kDeviations = 4;
  [[nodiscard]] static bool is_clearly_more(double use, double other) {
    return use >= kGain * other && use > other &&
           (use - other) * (use - other) >= kDeviations * kDeviations * (use + other);
  }
  /// What reading from disk takes, in copies over PCIe: some 5 GB/s against 51.
  static constexpr double kDiskCost = 10;

 private:
  /// Of one read from this level.
  [[nodiscard]] static double cost(ExpertLevel level);

  ExpertCounts counts_;
  std::vector<std::vector<ExpertLevel>> levels_;
};

/// Use of experts over time: what was counted since the start, with older counts weighing less and less.
class ExpertUse {
 public:
  /// Takes the counts so far, [blocks][experts]; the first time everything counts.
  void update(const std::vector<std::vector<std::int64_t>>& load);
  [[nodiscard]] std::span<const std::vector<double>> recent() const { return recent_; }

  static constexpr double kKept = 0.98;  ///< share of what was counted before that each update keeps

 private:
  std::vector<std::vector<std::int64_t>> last_;
  std::vector<std::vector<double>> recent_;
};

}  // namespace baleen
