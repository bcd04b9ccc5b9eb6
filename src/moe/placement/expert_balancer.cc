#include "moe/placement/expert_balancer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "moe/placement/expert_balance.h"

namespace baleen {

void validate(const BalanceOptions& options) {
  if (options.window_steps < 1 || options.interval_steps < 1 || options.first_steps < 1) {
    fail("‹balancing window› {}, ‹balancing interval› {}, ‹first balancing› {}: each is one step at least",
         options.window_steps, options.interval_steps, options.first_steps);
  }
  if (options.max_moved_bytes < 0)
    fail("‹balancing bytes› {}: 0, for no limit, is the least", options.max_moved_bytes);
}

namespace {

Balancedness over_layers(const std::vector<LayerBalance>& layers, std::vector<double> LayerBalance::*loads) {
  Balancedness result;
  double sum = 0, count = 0;
  for (const LayerBalance& layer : layers) {
    const std::vector<double>& own = layer.*loads;
    if (std::ranges::all_of(own, [](double load) { return load <= 0; })) continue;
    const double value = balancedness(own);
    result.least = count == 0 ? value : std::min(result.least, value);
    sum += value;
    ++count;
  }
  if (count > 0) result.mean = sum / count;
  return result;
}

}  // namespace

Balancedness ExpertBalance::before() const { return over_layers(layers, &LayerBalance::before); }
Balancedness ExpertBalance::after() const { return over_layers(layers, &LayerBalance::after); }

ExpertBalancer::ExpertBalancer(const BalanceOptions& options, std::vector<ExpertMap> maps,
                               std::vector<std::int64_t> expert_bytes)
    : options_(options), maps_(std::move(maps)), expert_bytes_(std::move(expert_bytes)) {
  BALEEN_CHECK_EQ(maps_.size(), expert_bytes_.size());
  validate(options_);
  state_.layers.resize(maps_.size());
}

bool ExpertBalancer::is_evaluation(std::int64_t step) const {
  const std::int64_t since_first = step - options_.first_steps;
  return since_first >= 0 && since_first % options_.interval_steps == 0;
}

std::int64_t ExpertBalancer::window_begin(std::int64_t evaluation) const {
  return std::max<std::int64_t>(0, evaluation - options_.window_steps);
}

bool ExpertBalancer::begins_window(std::int64_t step) const {
  // At step 0 begin the windows of all evaluations that have fewer steps before them.
  return (step == 0 && options_.first_steps <= options_.window_steps) ||
         (step > 0 && is_evaluation(step + options_.window_steps));
}

bool ExpertBalancer::wants_loads() const {
  return is_evaluation(state_.num_steps) || begins_window(state_.num_steps);
}

std::vector<BlockExperts> ExpertBalancer::take_loads(const ExpertLoads& loads) {
  const std::int64_t step = state_.num_steps;
  BALEEN_CHECK_EQ(loads.size(), maps_.size());
  proposed_.clear();
  if (is_evaluation(step)) {
    while (begun_.size() > 1 && begun_[1].step <= window_begin(step)) begun_.pop_front();
    BALEEN_CHECK(!begun_.empty() && begun_.front().step == window_begin(step));
    proposed_ = proposals(begun_.front().loads, loads);
    ++state_.num_evaluations;
  }
  if (begins_window(step)) begun_.push_back({step, loads});
  std::vector<BlockExperts> changes;
  for (const Proposal& one : proposed_) {
    const std::span<const std::int32_t> slots = one.map.physical_to_logical();
    changes.push_back({static_cast<std::int64_t>(one.block), {slots.begin(), slots.end()}});
  }
  return changes;
}

std::vector<ExpertBalancer::Proposal> ExpertBalancer::proposals(const ExpertLoads& begin,
                                                                const ExpertLoads& end) {
  std::vector<Proposal> all;
  for (std::size_t block = 0; block < maps_.size(); ++block) {
    const ExpertMap& map = maps_[block];
    std::vector<double> load;
    for (std::size_t expert = 0; expert < end[block].size(); ++expert)
      load.push_back(static_cast<double>(end[block][expert] - begin[block][expert]));
    LayerBalance& layer = state_.layers[block];
    layer.before = layer.after = rank_loads(map, load);
    const BalanceShape shape{.num_slots = map.num_slots(),
                             .num_ranks = map.num_slots() / map.slots_per_rank()};
    Proposal one{.block = block, .map = settled(balanced_map(load, shape), map)};
    one.loads = rank_loads(one.map, load);
    one.gain = balancedness(one.loads) - balancedness(layer.before);
    one.num_moved = num_moved(map, one.map);
    one.bytes = one.num_moved * expert_bytes_[block];
    if (one.gain >= options_.min_gain && one.map != map) all.push_back(std::move(one));
  }
  if (options_.max_moved_bytes > 0) {
    // The layers that gain most come first; the others wait for a later evaluation.
    std::ranges::stable_sort(all, std::ranges::greater(), &Proposal::gain);
    std::int64_t left = options_.max_moved_bytes;
    std::vector<Proposal> affordable;
    for (Proposal& one : all) {
      if (one.bytes > left) continue;
      left -= one.bytes;
      affordable.push_back(std::move(one));
    }
    all = std::move(affordable);
    std::ranges::sort(all, {}, &Proposal::block);
  }
  return all;
}

void ExpertBalancer::changed(std::size_t num_blocks) {
  BALEEN_CHECK(num_blocks > 0 && num_blocks <= proposed_.size());
  const auto end = proposed_.begin() + static_cast<std::ptrdiff_t>(num_blocks);
  for (Proposal& one : std::span(proposed_.begin(), end)) {
    state_.layers[one.block].after = std::move(one.loads);
    state_.num_moved_experts += one.num_moved;
    state_.moved_bytes += one.bytes;
    maps_[one.block] = std::move(one.map);
  }
  proposed_.erase(proposed_.begin(), end);
  if (proposed_.empty()) ++state_.num_rebalancings;
}

void ExpertBalancer::failed(std::string why) {
  ++state_.num_failures;
  state_.last_failure = std::move(why);
  proposed_.clear();
}

}  // namespace baleen
