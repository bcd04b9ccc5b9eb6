/// One rank's weights cut out of a whole model's: views of it where rows are cut, copies where columns are.
/// Which experts the rank has may change between passes, layer by layer.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "model/block_experts.h"
#include "model/config.h"
#include "model/rank_layout.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"
#include "ops/dispatch/expert_map.h"

namespace baleen {

/// The slots of one block of a rank before and after experts change places, as the host has them.
struct ExpertChange {
  std::size_t block = 0;  ///< number among the rank's blocks
  std::span<const ExpertWeights> now, next;
  std::shared_ptr<const ExpertMap> map;
  std::span<const std::int32_t> table;
};

/// As `rank_config` has it; not movable, because the tree points into it.
class RankWeights {
 public:
  /// `config` and `whole` of the whole model; `whole` outlives this. `layout` can be run (`check_runnable`).
  /// `maps`: of all blocks of the whole model; empty: as the layout places experts.
  RankWeights(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout,
              std::span<const ExpertMap> maps = {});
  RankWeights(const RankWeights&) = delete;
  RankWeights& operator=(const RankWeights&) = delete;

  [[nodiscard]] const WeightTree& tree() const { return tree_; }
  /// What is not a view of the whole model's: columns that were cut out, and their scales.
  [[nodiscard]] std::int64_t copied_bytes() const;

  /// Makes the experts of a block's slots ready, beside those in force; a block of another stage is passed
  /// over. Experts that the rank has already are not copied again. `experts.slots` is a map of the plan's
  /// ranks; throws `Error` where it is none, and std::bad_alloc.
  void stage(const BlockExperts& experts);
  /// Puts all that was staged in force, a block's experts together with its map. Not during a pass.
  void place_staged() noexcept;
  void drop_staged() noexcept { staged_.clear(); }
  /// What was staged, for a device that has copies of the weights; valid until it is placed or dropped.
  [[nodiscard]] std::vector<ExpertChange> staged() const;

 private:
  /// What matrices point into; addresses stay.
  using Copies = std::deque<std::vector<std::byte>>;
  struct HeldExpert {
    ExpertWeights weights;
    Copies copies;  ///< copies of an inner width that is split
  };
  /// The slots of a block on this rank.
  struct Slots {
    std::vector<std::shared_ptr<const HeldExpert>> held;  ///< one for each local id
    std::vector<ExpertWeights> weights;                   ///< theirs
    std::shared_ptr<const ExpertMap> map;
    std::vector<std::int32_t> table;  ///< the map as kernels read it
  };
  struct StagedBlock {
    std::size_t block;  ///< number among this rank's blocks
    Slots slots;
  };

  /// Leaves this rank's part of `tensor`, the whole one; columns are copied to `copies`.
  void cut(const TensorSpec& spec, HeldTensor tensor, Copies& copies) const;
  [[nodiscard]] ExpertWeights cut(const ExpertWeights& whole, Copies& copies) const;
  /// The slots of a block whose experts are `whole` under `map`; what `now` has is used again.
  [[nodiscard]] Slots bind(const std::vector<ExpertWeights>& whole, std::shared_ptr<const ExpertMap> map,
                           const Slots& now) const;
  void place(std::size_t block, Slots slots) noexcept;

  RankConfig rank_;
  const WeightTree& whole_;
  const RankLayout& layout_;
  Copies copies_;  ///< beside routed experts
  WeightTree tree_;
  std::vector<std::int64_t> blocks_;  ///< numbers in the whole model of the blocks of `tree_`
  std::vector<Slots> slots_;          ///< one for each of them
  std::vector<StagedBlock> staged_;
};

}  // namespace baleen
