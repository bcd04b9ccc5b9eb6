/// Where experts lie in two memories: now and then, those that are used much change places with those that
/// are not, without a change of any output.
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

  void before_step();

 private:
  const MainPass& pass_;
  ExpertStore* store_;
  ExpertUse use_;
  std::int64_t steps_since_change_ = 0;
};

}  // namespace baleen
