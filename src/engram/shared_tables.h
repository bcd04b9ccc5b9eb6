/// One copy of Engram tables in the host's memory for all ranks of a process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "engram/engram_tables.h"

namespace baleen {

/// Any thread. Ranks first choose places, one after the other; then those that chose the host's memory ask.
class SharedEngramTables {
 public:
  /// Calls `choose`, which returns whether the caller takes the host's memory, with whether another rank has:
  /// then its copy serves, and nothing more is needed.
  void choose(const std::function<bool(bool is_shared)>& choose);

  /// The copy, which the first that asks makes by `load`, while the others wait. What `load` throws is thrown
  /// to its caller, and the next one loads.
  [[nodiscard]] std::shared_ptr<const EngramTables> get(
      const std::function<std::shared_ptr<const EngramTables>()>& load);

 private:
  std::mutex choosing_, loading_;
  bool is_chosen_ = false;
  std::weak_ptr<const EngramTables> tables_;  ///< those who got it keep it: their device outlives it
};

}  // namespace baleen
