/// Options about when drafts are used, of commands that speculate.
#pragma once

#include <string>

#include "scheduler/scheduler_options.h"

namespace baleen {

class ModelEngine;
class Options;

struct DraftFlags {
  std::string schedule = "on";
  double threshold = 0;

  void add_schedule_to(Options& command);
  void add_threshold_to(Options& command);
  /// Writes them to `options`.
  void apply_to(SchedulerOptions& options) const;
  /// Throws `Error` for a threshold where the engine's draft head tells no confidences.
  void check(const ModelEngine& engine) const;
};

}  // namespace baleen
