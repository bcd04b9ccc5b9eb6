/// What the MTP block computes, without a sequence: its entry, its place behind the layers, its head.
/// (source: forward-pass specification, "MTP")
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "forward/forward.h"
#include "model/rank_config.h"
#include "model/weight_tree.h"
#include "numeric/dtype.h"

namespace baleen {

/// All that it is given outlives it. On a rank without the block it runs nothing.
class MtpPass {
 public:
  MtpPass(const RankConfig& rank, const WeightTree& weights, Device& device, Precision precision);

  /// The block over positions whose streams are known: row t of `streams`, which has all rows of a batch,
  /// holds those of its position, and token t of the batch is the token after it.
  [[nodiscard]] DraftRun over(ConstActivations<3> streams) const;
  /// As `Forward::logits`, of streams that the block returned.
  void logits(Forward& forward, ConstActivations<3> streams, Activations<2> out) const;

 private:
  void enter(const DraftRows& rows, ConstActivations<3> streams) const;
  [[nodiscard]] const DraftBlockWeights& weights() const { return weights_.drafts.front(); }

  RankConfig rank_;
  const WeightTree& weights_;
  Device& device_;
  Precision precision_;
};

}  // namespace baleen
