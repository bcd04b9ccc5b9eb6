#include "app/expert_flags.h"

#include <memory>

#include "app/option_ranges.h"
#include "app/options.h"

namespace baleen {

void ExpertFlags::add_to(Options& command) {
  constexpr WholeRange kSteps{1, std::int64_t{1} << 40};
  command.path("--expert-map", map_file,
               "JSON with the experts in the slots of each layer, as GET /experts answers it");
  const Option balancing =
      command.flag("--balance-experts,--enable-eplb", balance.enabled,
                   "While ranks serve, move and copy experts so that each rank gets as many tokens");
  command
      .integer("--balance-window", balance.window_steps, kSteps,
               "Latest steps whose tokens are counted for that")
      .needs(balancing);
  command
      .integer("--balance-interval,--eplb-rebalance-num-iterations", balance.interval_steps, kSteps,
               "Steps from one evaluation of the loads to the next")
      .needs(balancing);
  command.integer("--balance-first", balance.first_steps, kSteps, "Steps before the first one")
      .needs(balancing);
  command
      .real("--balance-gain", balance.min_gain, kShareRange,
            "A layer changes if mean over largest load of its ranks grows by this at least")
      .needs(balancing);
  command
      .bytes("--balance-bytes", balance.max_moved_bytes, kWeightBytesRange,
             "Most that ranks get of experts they did not have, at each evaluation; 0: no limit")
      .needs(balancing);
}

void ExpertFlags::apply_to(EngineOptions& options) const {
  options.balance = balance;
  if (!map_file.empty())
    options.expert_table = std::make_shared<const ExpertTable>(read_expert_table(map_file));
}

}  // namespace baleen
