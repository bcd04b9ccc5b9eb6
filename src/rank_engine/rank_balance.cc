// Experts that change places while the ranks serve: between steps, on all ranks or on none. Steps that run
// ahead are no obstacle: a CPU has computed them when `begin` returns, and a GPU copies experts behind them.

#include <fmt/format.h>

#include "base/number.h"
#include "rank_engine/rank_engine.h"

namespace baleen {
namespace {

std::string balancedness_text(const Balancedness& value) {
  return fmt::format("{:.2f} (least {:.2f})", value.mean, value.least);
}

/// What the latest change did; the totals are those before it.
std::string change_text(const ExpertBalance& now, std::size_t num_layers, std::int64_t moved_experts,
                        std::int64_t moved_bytes) {
  return fmt::format(
      "experts moved in {} layers: {} experts, {} bytes; balancedness over layers {} before, {} after",
      num_layers, grouped(now.num_moved_experts - moved_experts), grouped(now.moved_bytes - moved_bytes),
      balancedness_text(now.before()), balancedness_text(now.after()));
}

}  // namespace

std::optional<Failure> RankEngine::change_maps(std::span<const BlockExperts> experts) {
  const RankCall stage{calls::StageExperts{.experts = {experts.begin(), experts.end()}}};
  std::optional<Failure> failed = first_failure(team_->call(stage));
  static_cast<void>(team_->call(failed ? RankCall{calls::DropExperts{}} : RankCall{calls::PlaceExperts{}}));
  return failed;
}

void RankEngine::balance_experts() {
  if (!balancer_) return;
  if (balancer_->wants_loads()) {
    const std::vector<BlockExperts> experts = balancer_->take_loads(expert_load());
    if (!experts.empty()) {
      const ExpertBalance& state = balancer_->state();
      const std::int64_t moved_experts = state.num_moved_experts, moved_bytes = state.moved_bytes;
      // Staging of a device has room for one layer.
      const bool copies = !team_->first().device().traits().shares_host_memory;
      const std::size_t at_a_time = copies ? 1 : experts.size();
      std::optional<Failure> failed;
      for (std::size_t first = 0; first < experts.size() && !failed; first += at_a_time) {
        failed = change_maps(std::span(experts).subspan(first, at_a_time));
        if (!failed) balancer_->changed(at_a_time);
      }
      if (failed) balancer_->failed(failed->message);
      if (options_.report_balance) {
        options_.report_balance(failed ? fmt::format("experts stay where they are: {}", failed->message)
                                       : change_text(state, experts.size(), moved_experts, moved_bytes));
      }
    }
  }
  balancer_->count_step();
}

}  // namespace baleen
