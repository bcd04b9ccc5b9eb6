/// Where experts lie in two memories: now and then, those that are used much change places with those that
/// are not, and others are cached in the copy buffers, without a change of any output.
#pragma once

#include <cstdint>

#include "engine/main_pass.h"
#include "moe/residence/expert_placement.h"
#include "moe/residence/expert_store.h"

namespace baleen {

class ExpertPromotion {
 public:
  /// `store`: null where all experts lie in one memory. Both outlive this.
  ExpertPromotion(const MainPass& pass, ExpertStore* store) : pass_(pass), store_(store) {}

  /// `num_rows`: tokens of the step.
  void before_step(std::int64_t num_rows);

 private:
  void exchange();
  void cache(std::int64_t most);

  const MainPass& pass_;
  ExpertStore* store_;
  ExpertUse use_;
  std::int64_t steps_since_change_ = 0;
  std::int64_t most_rows_ = 0;  ///< rows of the largest step since then whose kernels copy experts
};

}  // namespace baleen
