#include "moe/residence/cached_experts.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace baleen {

CachedExperts::CachedExperts(const ExpertCounts& counts)
    : num_experts_(counts.num_experts),
      at_(static_cast<std::size_t>(counts.num_buffer_places())),
      place_of_(static_cast<std::size_t>(counts.num_in_all()), kNone) {}

std::optional<std::int64_t> CachedExperts::place_of(const BlockExpert& expert) const {
  const std::int32_t place = place_of_[static_cast<std::size_t>(expert.block * num_experts_ + expert.expert)];
  return place == kNone ? std::nullopt : std::optional<std::int64_t>(place);
}

void CachedExperts::put(std::int64_t place, const BlockExpert& expert) {
  BALEEN_CHECK(!place_of(expert));
  drop(place);
  at_[static_cast<std::size_t>(place)] = expert;
  entry(expert) = static_cast<std::int32_t>(place);
  ++num_cached_;
}

void CachedExperts::drop(std::int64_t place) {
  std::optional<BlockExpert>& there = at_[static_cast<std::size_t>(place)];
  if (!there) return;
  entry(*there) = kNone;
  there.reset();
  --num_cached_;
}

std::vector<CachedExperts::Change> CachedExperts::improvements(const ExpertPlacement& placement,
                                                               std::span<const std::vector<double>> use,
                                                               std::int64_t first, std::int64_t most) const {
  struct Used {
    double use;
    std::int64_t number;  ///< its place among those of its block
    BlockExpert expert;
  };
  const auto use_of = [&](const BlockExpert& expert) {
    return use.empty() ? 0.0
                       : use[static_cast<std::size_t>(expert.block)][static_cast<std::size_t>(expert.expert)];
  };
  std::vector<Used> away, here;
  for (std::int64_t block = 0; block < placement.counts().num_blocks; ++block) {
    std::int64_t number = 0;
    for (std::int64_t expert = 0; expert < num_experts_; ++expert) {
      const BlockExpert one{block, expert};
      if (placement.level(block, expert) == ExpertLevel::kHost && !place_of(one))
        away.push_back({use_of(one), number++, one});
    }
  }
  std::vector<std::int64_t> empty;
  for (std::int64_t place = first; place < num_places(); ++place) {
    if (const auto expert = at(place)) {
      here.push_back({use_of(*expert), place, *expert});
    } else {
      empty.push_back(place);
    }
  }
  std::ranges::sort(away, [](const Used& a, const Used& b) {
    return std::tuple(-a.use, a.number, a.expert.block) < std::tuple(-b.use, b.number, b.expert.block);
  });
  std::ranges::sort(here, [](const Used& a, const Used& b) {
    return std::tuple(a.use, a.number) < std::tuple(b.use, b.number);
  });
  std::vector<Change> changes;
  auto next = away.begin();
  const auto is_wanted = [&] { return next != away.end() && std::ssize(changes) < most; };
  for (const std::int64_t place : empty) {
    if (is_wanted()) changes.push_back({place, (next++)->expert});
  }
  for (const Used& least : here) {
    if (!is_wanted() || !ExpertPlacement::is_clearly_more(next->use, least.use)) break;
    changes.push_back({least.number, (next++)->expert});
  }
  return changes;
}

}  // namespace baleen
