/// Ranks that take part in a message together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace baleen {

struct RankGroup {
  std::vector<std::int64_t> ranks{0};  ///< numbers of the members among all ranks of the service, ascending
  std::int64_t place = 0;              ///< where this rank stands in `ranks`

  /// `first`, `first + stride`, ... : `count` ranks, of which `rank` is one.
  [[nodiscard]] static RankGroup strided(std::int64_t first, std::int64_t stride, std::int64_t count,
                                         std::int64_t rank) {
    RankGroup group{.ranks = {}, .place = (rank - first) / stride};
    for (std::int64_t i = 0; i < count; ++i) group.ranks.push_back(first + i * stride);
    return group;
  }
  [[nodiscard]] std::int64_t size() const { return std::ssize(ranks); }
  [[nodiscard]] std::int64_t rank() const { return ranks[static_cast<std::size_t>(place)]; }
  bool operator==(const RankGroup&) const = default;
};

}  // namespace baleen
