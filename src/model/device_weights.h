/// A model's weights copied to a device: the same arrays, format by format, at addresses of the device's memory.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"
#include "tensor/buffer.h"

namespace baleen {

/// What `DeviceWeights` of a checkpoint of these formats takes, or of one rank's share of it.
[[nodiscard]] std::int64_t device_weight_bytes(const ModelConfig& config, const StorageFormats& formats,
                                               const RankShare& share = {});
/// What `DeviceWeights(tree)` takes: by its shapes, whatever lies at its addresses.
[[nodiscard]] std::int64_t device_weight_bytes(const WeightTree& tree);

/// Matrices keep their stored formats; what `WeightTree` has in float32 (norms, sinks, FP8 block scales) stays float32.
/// Every array starts on 256 bytes. Of a block's routed experts the same arrays lie one behind the other at even
/// distances: w1 of all, its scales, w2, ...
class DeviceWeights {
 public:
  /// Copies everything, with a progress line where that takes seconds. Throws `Error` when `memory`, which must
  /// outlive this, has not enough.
  DeviceWeights(const WeightTree& host, Memory& memory);

  [[nodiscard]] const WeightTree& tree() const { return tree_; }
  [[nodiscard]] std::int64_t size_bytes() const { return arena_.size_bytes(); }

 private:
  WeightTree tree_;
  Arena arena_;
};

}  // namespace baleen
