/// Which experts of the host's memory have a copy in the buffers that steps of many tokens copy to: between
/// such steps these would lie idle, two layers' experts large. Policy alone, like `ExpertPlacement`.
///
/// Unlike an expert that changed places with one on the GPU (`ExpertSwap`), a cached one stays where it is as
/// well: a step that needs the buffers takes them without a copy back, and caching is one copy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "moe/residence/expert_placement.h"

namespace baleen {

struct BlockExpert {
  std::int64_t block = 0;
  std::int64_t expert = 0;
  bool operator==(const BlockExpert&) const = default;
};

class CachedExperts {
 public:
  explicit CachedExperts(const ExpertCounts& counts);

  /// Of both buffers, one row of places.
  [[nodiscard]] std::int64_t num_places() const { return static_cast<std::int64_t>(at_.size()); }
  [[nodiscard]] bool empty() const { return num_cached_ == 0; }
  [[nodiscard]] std::optional<BlockExpert> at(std::int64_t place) const {
    return at_[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] std::optional<std::int64_t> place_of(const BlockExpert& expert) const;
  /// `expert`, which has no place, in place of what is there.
  void put(std::int64_t place, const BlockExpert& expert);
  void drop(std::int64_t place);

  /// An expert that comes to a place.
  struct Change {
    std::int64_t place = 0;
    BlockExpert expert;
    bool operator==(const Change&) const = default;
  };
  /// The changes that help most, at most `most` of them, of places from `first` on: the most used experts of
  /// the host's memory to empty places, then to those of experts that are used clearly less
  /// (`ExpertPlacement::is_clearly_more`). `use`: tokens that chose each expert, for every block; empty:
  /// nothing is known. Of equal use blocks take turns.
  [[nodiscard]] std::vector<Change> improvements(const ExpertPlacement& placement,
                                                 std::span<const std::vector<double>> use, std::int64_t first,
                                                 std::int64_t most) const;

 private:
  static constexpr std::int32_t kNone = -1;

  [[nodiscard]] std::int32_t& entry(const BlockExpert& expert) {
    return place_of_[static_cast<std::size_t>(expert.block * num_experts_ + expert.expert)];
  }

  std::int64_t num_experts_;
  std::vector<std::optional<BlockExpert>> at_;  ///< what each place holds
  std::vector<std::int32_t> place_of_;          ///< [blocks, experts], or kNone
  std::int64_t num_cached_ = 0;
};

}  // namespace baleen
