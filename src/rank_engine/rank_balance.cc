// Experts that change places while the ranks serve: between steps, on all ranks or on none. Steps that run
// ahead are no obstacle: a CPU has computed them when `begin` returns.

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

void RankEngine::balance_experts() {
  if (!balancer_) return;
  if (balancer_->wants_loads()) {
    RankCall call{.kind = RankCall::Kind::kStageExperts, .experts = balancer_->take_loads(expert_load())};
    if (!call.experts.empty()) {
      const std::size_t num_layers = call.experts.size();
      const ExpertBalance& state = balancer_->state();
      const std::int64_t moved_experts = state.num_moved_experts, moved_bytes = state.moved_bytes;
      const std::optional<Failure> failed = first_failure(team_->call(call));
      call.kind = failed ? RankCall::Kind::kDropExperts : RankCall::Kind::kPlaceExperts;
      call.experts.clear();
      static_cast<void>(team_->call(call));
      if (failed) {
        balancer_->failed(failed->message);
      } else {
        balancer_->changed();
      }
      if (options_.report_balance) {
        options_.report_balance(failed ? fmt::format("experts stay where they are: {}", failed->message)
                                       : change_text(state, num_layers, moved_experts, moved_bytes));
      }
    }
  }
  balancer_->count_step();
}

}  // namespace baleen
