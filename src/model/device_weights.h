/// A model's weights copied to a device: the same arrays, format by format, at addresses of the device's
/// memory.
#pragma once

#include <cstdint>
#include <limits>

#include "model/rank_config.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace baleen {

/// Blocks [begin, end), as a rank counts them.
struct BlockRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] bool has(std::int64_t block) const { return begin <= block && block < end; }
  [[nodiscard]] bool empty() const { return begin >= end; }
};
inline constexpr BlockRange kAllBlocks{.end = std::numeric_limits<std::int64_t>::max()};

/// What `DeviceWeights` takes of what a rank has of a checkpoint of these formats; of routed experts those of
/// blocks `with_experts`.
[[nodiscard]] std::int64_t device_weight_bytes(const RankConfig& rank, const StorageFormats& formats,
                                               const BlockRange& with_experts = kAllBlocks);
/// The same of `tree`: by its shapes, whatever lies at its addresses.
[[nodiscard]] std::int64_t device_weight_bytes(const WeightTree& tree,
                                               const BlockRange& with_experts = kAllBlocks);

/// Makes all bytes that `tree` reads and that files have in another form (`WeightTree::made`), to stay: for a
/// device that reads the host's memory.
void make_all(const WeightTree& tree, ThreadPool& pool);

/// Matrices keep their stored formats; what `WeightTree` has in float32 (norms, sinks, FP8 block scales)
/// stays float32. Every array starts on 256 bytes. Of a block's routed experts the same arrays lie one
/// behind the other at even distances: w1 of all, its scales, w2, ...
class DeviceWeights {
 public:
  /// Copies everything but the routed experts of blocks outside `with_experts`, which lie elsewhere: the tree
  /// has none of them. With a progress line where that takes seconds. Throws `Error` when `memory`, which
  /// must outlive this, has not enough, and for FP8 scales of `wo_a` that are no BF16 numbers below 2^8
  /// (F32 scales may be anything): kernels bring its weights to BF16, and a scale that was rounded on the
  /// way would change a whole block.
  DeviceWeights(const WeightTree& host, Memory& memory, const BlockRange& with_experts = kAllBlocks);

  [[nodiscard]] const WeightTree& tree() const { return tree_; }
  /// For who changes what lies at its addresses, or says where routed experts lie.
  [[nodiscard]] WeightTree& tree() { return tree_; }

 private:
  WeightTree tree_;
  Arena arena_;
};

}  // namespace baleen
