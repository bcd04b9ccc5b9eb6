/// What a run makes of the replies that the model in training sampled.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/graph/parameters.h"
#include "trainer/graph/pass_options.h"
#include "trainer/post/prompt_set.h"
#include "trainer/post/rollout.h"

namespace baleen {

/// The replies to one prompt.
struct RolloutGroup {
  const PolicyPrompt* prompt = nullptr;
  std::vector<Rollout> rollouts;
};

struct ObjectiveReport {
  double loss = 0;
  /// For the log, in this order; the first is also shown while the run goes on.
  std::vector<std::pair<std::string_view, double>> figures;
};

class RolloutObjective {
 public:
  virtual ~RolloutObjective() = default;
  /// Adds dL/dweights of one step's groups, in their order. `options`: of its passes.
  virtual ObjectiveReport add_gradients(std::span<const RolloutGroup> groups,
                                        const Parameters<float>& weights, const PassOptions& options,
                                        Parameters<float>& gradients) = 0;
  /// Checksums of the weights that it reads besides, for `RunInputs`. Cost: one pass over them.
  [[nodiscard]] virtual std::map<std::string, std::string> models() const = 0;
};

}  // namespace baleen
