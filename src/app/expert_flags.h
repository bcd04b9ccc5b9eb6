/// Where experts lie on the ranks, by layer: from a file, and while they serve.
#pragma once

#include <string>

#include "engine/engine_options.h"

namespace baleen {

class Options;

struct ExpertFlags {
  std::string map_file;  ///< empty: as the plan places experts
  BalanceOptions balance;

  /// `--expert-map`, `--balance-experts` and what belongs to it.
  void add_to(Options& command);
  /// Reads the file. Throws `Error`.
  void apply_to(EngineOptions& options) const;
};

}  // namespace baleen
