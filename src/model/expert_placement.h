/// Which routed experts lie in the GPU's memory and which in the host's. Policy alone: it knows no addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace baleen {

/// How many experts there are, and how many of them lie in the host's memory.
struct ExpertCounts {
  std::int64_t num_blocks = 0;
  std::int64_t num_experts = 0;  ///< of a block
  std::int64_t num_on_host = 0;  ///< of all

  [[nodiscard]] std::int64_t num_in_all() const { return num_blocks * num_experts; }
  [[nodiscard]] std::int64_t num_on_device() const { return num_in_all() - num_on_host; }
  /// Of the block that has most of them.
  [[nodiscard]] std::int64_t most_on_host_of_a_block() const {
    return num_blocks == 0 ? 0 : (num_on_host + num_blocks - 1) / num_blocks;
  }
};

/// Two experts of a block that change places.
struct ExpertSwap {
  std::int64_t block = 0;
  std::int64_t from_host = 0;    ///< comes to the GPU
  std::int64_t from_device = 0;  ///< goes to the host
  bool operator==(const ExpertSwap&) const = default;
};

/// Every block keeps its number of experts on the host: a step meets the host's experts evenly, layer after
/// layer.
class ExpertPlacement {
 public:
  /// Those on the host are spread evenly over the blocks; of each block those of the highest ids.
  explicit ExpertPlacement(const ExpertCounts& counts);

  [[nodiscard]] const ExpertCounts& counts() const { return counts_; }
  [[nodiscard]] bool on_host(std::int64_t block, std::int64_t expert) const {
    return on_host_[static_cast<std::size_t>(block)][static_cast<std::size_t>(expert)];
  }

  /// `use`: tokens that chose each expert, for every block. The swaps that help most, at most `most` of them:
  /// the most used expert on the host against the least used one on the GPU, where that is used clearly less
  /// (kGain).
  [[nodiscard]] std::vector<ExpertSwap> improvements(std::span<const std::vector<double>> use,
                                                     std::int64_t most) const;
  void apply(const ExpertSwap& swap);

  /// An expert on the host has to be used more than so many times as often as the one it replaces: what is
  /// measured varies, and a swap that is taken back later costs two copies each way.
  static constexpr double kGain = 1.25;
  static constexpr double kLeastGain = 4;  ///< and by at least so many tokens

 private:
  ExpertCounts counts_;
  std::vector<std::vector<bool>> on_host_;
};

/// Use of experts over time: what was counted since the start, with older counts weighing less and less.
class ExpertUse {
 public:
  /// Takes the counts so far, [blocks][experts]; the first time everything counts.
  void update(const std::vector<std::vector<std::int64_t>>& load);
  [[nodiscard]] std::span<const std::vector<double>> recent() const { return recent_; }

  static constexpr double kKept = 0.98;  ///< of what was counted before, at each update

 private:
  std::vector<std::vector<std::int64_t>> last_;
  std::vector<std::vector<double>> recent_;
};

}  // namespace baleen
