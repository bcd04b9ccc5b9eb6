#include "moe/residence/expert_placement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/check.h"

namespace baleen {

namespace {

/// Of `count` things spread evenly over `total` places, those in the first `places`.
std::int64_t spread(std::int64_t count, std::int64_t places, std::int64_t total) {
  return total == 0 ? 0 : count * places / total;
}

struct Candidate {
  ExpertSwap swap;
  double gain;
};

}  // namespace

std::int64_t suitable_slots(const ExpertCounts& counts) {
  if (counts.num_away() == 0 || counts.num_selected == 0) return 0;
  const double chosen = static_cast<double>(counts.num_groups * counts.num_selected * counts.num_experts) /
                        static_cast<double>(counts.num_to_choose_from());
  const auto of_a_step = static_cast<std::int64_t>(std::ceil(chosen * counts.share_away()));
  return std::min({of_a_step + 1, std::int64_t{kMaxSlotsOfBlock}, counts.most_away_of_a_block()});
}

double expected_fetches(const ExpertCounts& counts, std::int64_t num_rows) {
  if (counts.num_away() == 0) return 0;
  const double chosen =
      static_cast<double>(counts.num_selected) / static_cast<double>(counts.num_to_choose_from());
  return static_cast<double>(counts.num_away()) / static_cast<double>(counts.num_blocks) *
         (1 - std::pow(1 - chosen, static_cast<double>(num_rows)));
}

ExpertPlacement::ExpertPlacement(const ExpertCounts& counts) : counts_(counts) {
  BALEEN_CHECK(counts.num_on_host >= 0 && counts.num_on_disk >= 0 && counts.num_on_device() >= 0);
  for (std::int64_t block = 0; block < counts.num_blocks; ++block) {
    const auto away_before = [&](std::int64_t end) {
      return spread(counts.num_away(), end, counts.num_blocks);
    };
    const auto on_disk_before = [&](std::int64_t end) {
      return spread(counts.num_on_disk, away_before(end), counts.num_away());
    };
    const std::int64_t away = away_before(block + 1) - away_before(block);
    const std::int64_t on_disk = on_disk_before(block + 1) - on_disk_before(block);
    std::vector<ExpertLevel>& levels =
        levels_.emplace_back(static_cast<std::size_t>(counts.num_experts), ExpertLevel::kDevice);
    std::fill(levels.end() - away, levels.end(), ExpertLevel::kHost);
    std::fill(levels.end() - on_disk, levels.end(), ExpertLevel::kDisk);
  }
}

double ExpertPlacement::cost(ExpertLevel level) {
  return level == ExpertLevel::kDevice ? 0 : level == ExpertLevel::kHost ? 1 : kDiskCost;
}

std::vector<ExpertSwap> ExpertPlacement::improvements(std::span<const std::vector<double>> use,
                                                      std::int64_t most) const {
  std::vector<Candidate> candidates;
  for (std::int64_t block = 0; block < counts_.num_blocks; ++block) {
    const std::vector<double>& used = use[static_cast<std::size_t>(block)];
    const auto use_of = [&](std::int64_t expert) { return used[static_cast<std::size_t>(expert)]; };
    std::vector<bool> taken(used.size());
    /// The most used of `farther` against the least used of `nearer`, as long as that gains.
    const auto pair_up = [&](std::vector<std::int64_t> farther, std::vector<std::int64_t> nearer) {
      std::ranges::stable_sort(farther, std::greater(), use_of);
      std::ranges::stable_sort(nearer, std::less(), use_of);
      for (std::size_t i = 0; i < std::min(farther.size(), nearer.size()); ++i) {
        const double more = use_of(farther[i]), less = use_of(nearer[i]);
        if (!is_clearly_more(more, less)) break;
        const double step = cost(level(block, farther[i])) - cost(level(block, nearer[i]));
        candidates.push_back({{block, farther[i], nearer[i]}, step * (more - less)});
        taken[static_cast<std::size_t>(farther[i])] = taken[static_cast<std::size_t>(nearer[i])] = true;
      }
    };
    const auto those = [&](auto condition) {
      std::vector<std::int64_t> experts;
      for (std::int64_t expert = 0; expert < counts_.num_experts; ++expert) {
        if (!taken[static_cast<std::size_t>(expert)] && condition(level(block, expert)))
          experts.push_back(expert);
      }
      return experts;
    };
    const auto is = [](ExpertLevel wanted) { return [=](ExpertLevel level) { return level == wanted; }; };
    pair_up(those([](ExpertLevel level) { return level != ExpertLevel::kDevice; }),
            those(is(ExpertLevel::kDevice)));
    pair_up(those(is(ExpertLevel::kDisk)), those(is(ExpertLevel::kHost)));
  }
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::gain);
  std::vector<ExpertSwap> swaps;
  for (std::size_t i = 0; i < std::min(candidates.size(), static_cast<std::size_t>(most)); ++i)
    swaps.push_back(candidates[i].swap);
  return swaps;
}

void ExpertPlacement::apply(const ExpertSwap& swap) {
  BALEEN_CHECK(level(swap.block, swap.promoted) > level(swap.block, swap.demoted));
  std::vector<ExpertLevel>& levels = levels_[static_cast<std::size_t>(swap.block)];
  std::swap(levels[static_cast<std::size_t>(swap.promoted)], levels[static_cast<std::size_t>(swap.demoted)]);
}

void ExpertUse::update(const std::vector<std::vector<std::int64_t>>& load) {
  recent_.resize(load.size());
  last_.resize(load.size());
  for (std::size_t block = 0; block < load.size(); ++block) {
    recent_[block].resize(load[block].size());
    last_[block].resize(load[block].size());
    for (std::size_t expert = 0; expert < load[block].size(); ++expert) {
      recent_[block][expert] =
          kKept * recent_[block][expert] + static_cast<double>(load[block][expert] - last_[block][expert]);
    }
    last_[block] = load[block];
  }
}

}  // namespace baleen
