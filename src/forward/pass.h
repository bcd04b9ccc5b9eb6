/// One batch on its way through the blocks, and what every part of the pass works with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "forward/batch_rows.h"
#include "kv_cache/kv_cache.h"
#include "model/rank_config.h"
#include "model/rank_layout.h"
#include "model/weight_tree.h"
#include "numeric/dtype.h"
#include "ops/collectives/collective.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// All of it outlives the parts. Weights and cache lie in the device's memory.
struct PassContext {
  RankConfig rank;
  const ModelConfig& config = rank.model();
  const WeightTree& weights;  ///< the rank's
  Device& device;
  const KvCache& cache;
  Precision precision = Precision::kReleased;
  const RankLayout& layout;

  [[nodiscard]] float norm_eps() const { return static_cast<float>(config.rms_norm_eps); }
};

/// A batch as the operations get it: on a device that pads, with more rows than the caller has.
struct Step {
  RaggedBatch batch;
  StepRows rows;
};

/// Which rows of a step are whose. The ranks of a data-parallel group have the same T rows; ranges are in
/// them unless said otherwise, and lists have one for each rank of the group.
class RowShares {
 public:
  RowShares(const RankLayout& layout, const Step& step);
  RowShares(const RowShares&) = delete;
  RowShares& operator=(const RowShares&) = delete;

  [[nodiscard]] std::int64_t num_rows() const { return num_rows_; }
  /// Rows that a rank has between attention and attention.
  [[nodiscard]] std::span<const RowRange> kept_by_rank() const { return kept_; }
  [[nodiscard]] RowRange kept() const { return kept_[place_]; }
  /// Rows that a rank sends to experts, where all ranks of the group have all rows.
  [[nodiscard]] std::span<const RowRange> dispatched_by_rank() const { return dispatched_; }
  [[nodiscard]] RowRange dispatched() const { return dispatched_[place_]; }
  /// [o_proj_tp] of the rows that the output projection has at hand, those that each rank gets the sums of.
  [[nodiscard]] std::span<const RowRange> output_shares() const { return output_shares_; }
  /// Rows whose queries this rank attends with, and these rows as a batch.
  [[nodiscard]] RowRange attending() const { return attending_; }
  [[nodiscard]] const BatchPart& attending_batch() const { return attending_batch_; }

 private:
  std::size_t place_;
  std::int64_t num_rows_;
  std::vector<RowRange> kept_, dispatched_, output_shares_;
  RowRange attending_;
  std::vector<SequenceSlice> attending_slices_;
  BatchPart attending_batch_;
};

/// A step over blocks [begin, end); `step` and `shares` outlive it.
struct Pass {
  const Step& step;
  const RowShares& shares;
  std::int64_t begin = 0, end = 0;
  Activations<3> streams;   ///< [K, n, d] of the K rows that the rank keeps
  int micro_batch = 0;      ///< which of two, where a step is cut: whose part of the arrays it has
  bool counts_load = true;  ///< its routed tokens are counted
  /// It goes on with rows of a pass that ended before its first block (`ResidualStreams::resume`): their
  /// streams are as those that the block's mixing takes, and their entries of it are there.
  bool resumes = false;

  [[nodiscard]] std::int64_t num_rows() const { return shares.num_rows(); }
  [[nodiscard]] std::int64_t num_kept() const { return shares.kept().size(); }
  /// [K] where operations read them.
  [[nodiscard]] std::span<const TokenId> kept_tokens() const;
};

/// A part's arrays: of whole steps and, where steps are cut, of each of two micro-batches. The first one has
/// the arrays of whole steps, whose first rows it takes.
template <class Arrays>
class PerMicroBatch {
 public:
  explicit PerMicroBatch(const Arrays& whole) : whole_(whole) {}

  /// From now on second micro-batches have what `Arrays::from_row` gives of the whole.
  template <class... Rows>
  void cut(Rows... first) {
    second_ = whole_.from_row(first...);
  }
  [[nodiscard]] const Arrays& whole() const { return whole_; }
  [[nodiscard]] const Arrays& of(const Pass& pass) const { return pass.micro_batch == 0 ? whole_ : second_; }
  [[nodiscard]] Arrays& of(const Pass& pass) { return pass.micro_batch == 0 ? whole_ : second_; }

 private:
  Arrays whole_, second_;
};

/// Every rank of the data-parallel group gets the rows that the others have in `x`, [T, w]: `shares` of each.
void gather_rows_of_group(const PassContext& context, const Activations<2>& x,
                          std::span<const RowRange> shares);

}  // namespace baleen
