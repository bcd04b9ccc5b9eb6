#include "model/expert_placement.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {

ExpertPlacement::ExpertPlacement(const ExpertCounts& counts) : counts_(counts) {
  const auto& [num_blocks, num_experts, num_on_host] = counts;
  BALEEN_CHECK(num_on_host >= 0 && num_on_host <= num_blocks * num_experts);
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const std::int64_t count = num_on_host * (block + 1) / num_blocks - num_on_host * block / num_blocks;
    std::vector<bool>& on_host = on_host_.emplace_back(static_cast<std::size_t>(num_experts), false);
    std::fill(on_host.end() - count, on_host.end(), true);
  }
}

std::vector<ExpertSwap> ExpertPlacement::improvements(std::span<const std::vector<double>> use,
                                                      std::int64_t most) const {
  struct Candidate {
    ExpertSwap swap;
    double gain;
  };
  std::vector<Candidate> candidates;
  for (std::int64_t block = 0; block < counts_.num_blocks; ++block) {
    const std::vector<double>& used = use[static_cast<std::size_t>(block)];
    std::vector<std::int64_t> host, device;
    for (std::int64_t expert = 0; expert < counts_.num_experts; ++expert)
      (on_host(block, expert) ? host : device).push_back(expert);
    const auto use_of = [&](std::int64_t expert) { return used[static_cast<std::size_t>(expert)]; };
    std::ranges::stable_sort(host, std::greater(), use_of);
    std::ranges::stable_sort(device, std::less(), use_of);
    for (std::size_t i = 0; i < std::min(host.size(), device.size()); ++i) {
      const double more = use_of(host[i]), less = use_of(device[i]);
      if (more < kGain * less || more - less < kLeastGain) break;
      candidates.push_back({{block, host[i], device[i]}, more - less});
    }
  }
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::gain);
  std::vector<ExpertSwap> swaps;
  for (std::size_t i = 0; i < std::min(candidates.size(), static_cast<std::size_t>(most)); ++i)
    swaps.push_back(candidates[i].swap);
  return swaps;
}

void ExpertPlacement::apply(const ExpertSwap& swap) {
  BALEEN_CHECK(on_host(swap.block, swap.from_host) && !on_host(swap.block, swap.from_device));
  std::vector<bool>& on_host = on_host_[static_cast<std::size_t>(swap.block)];
  on_host[static_cast<std::size_t>(swap.from_host)] = false;
  on_host[static_cast<std::size_t>(swap.from_device)] = true;
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
