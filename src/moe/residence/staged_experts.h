/// Routed experts that change their slots on a device while it serves: the bytes of other experts come from
/// the host to a staging buffer while the old ones are in force, and from there to their slots between two
/// steps, in the order of the device's operations. Addresses stay, and with them captured steps.
/// (source: parallel MoE 10, "Moving weights")
///
///     background   host ──► staging: slots that change, the map's table
///     operations   step ─────────────────────► staging ──► slots, table ──► the next step
#pragma once

#include <cstdint>
#include <vector>

#include "device/background_copies.h"
#include "model/rank_weights.h"
#include "model/weight_tree.h"
#include "tensor/buffer.h"
#include "tensor/memory.h"

namespace baleen {

class StagedExperts {
 public:
  /// `tree` lies in `memory`, its experts one behind the other; all outlive this. Takes `bytes_for(tree)`.
  /// Throws `Error` where `memory` has not enough.
  StagedExperts(WeightTree& tree, Memory& memory, BackgroundCopies& copies);

  /// Of the block with the largest experts all slots, and a map's table.
  [[nodiscard]] static std::int64_t bytes_for(const WeightTree& tree);

  /// Begins to bring what `change` puts into other slots; of one block at a time. Returns when the host's
  /// memory was read.
  void stage(const ExpertChange& change);
  /// Between two steps, where something is staged: in force for what is queued from now on. Does not wait.
  void place();
  void drop() { copies_to_make_.clear(); }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;  ///< lies in staging
    std::int64_t size_bytes;
  };
  void stage_array(std::byte* to, const std::byte* from, std::int64_t size_bytes);
  void stage_matrix(const WeightMatrix& to, const WeightMatrix& from);

  WeightTree& tree_;
  Memory& memory_;
  BackgroundCopies& copies_;
  Arena staging_;
  std::vector<Copy> copies_to_make_;
  std::size_t block_ = 0;
  std::shared_ptr<const ExpertMap> map_;
};

}  // namespace baleen
