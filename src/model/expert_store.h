/// Routed experts in two memories: the GPU's, and pinned memory of the host, which kernels read over PCIe. All lie on one
/// lattice of equally long blocks that spans both, so that an expert's place is one whole number, read by kernels from a
/// table in the GPU's memory (`ExpertPlaces`). The same bytes at another place give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/expert_block.h"
#include "model/expert_placement.h"
#include "model/weight_tree.h"
#include "tensor/buffer.h"

namespace baleen {

class ExpertStore {
 public:
  /// Copies the routed experts of the first `placement.num_blocks()` of `blocks`. `device`: what kernels run in; `host`:
  /// memory that they reach at the same addresses as the host does. Throws `Error` when either has not enough.
  ExpertStore(std::span<const BlockWeights> blocks, const ExpertPlacement& placement, Memory& device,
              Memory& host);
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;

  /// Makes `tree`'s blocks read their routed experts here.
  void bind(WeightTree& tree) const;
  /// Exchanges the bytes of two experts between steps: after all that was queued, before what is queued next. A swap is one
  /// block each way.
  void swap(const ExpertSwap& swap);

  [[nodiscard]] const ExpertPlacement& placement() const { return placement_; }
  /// Where an expert's block is; what it holds can be read by whoever reads that memory.
  [[nodiscard]] const std::byte* address(std::int64_t block, std::int64_t expert) const {
    return base_ + std::int64_t{place(block, expert)} * shape_.bytes();
  }
  [[nodiscard]] const ExpertBlock& shape() const { return shape_; }

  /// What a store takes of either memory: one block more than it has experts there, in the GPU's for swaps, in the host's
  /// because blocks begin at whole places; and the table.
  [[nodiscard]] static std::int64_t device_bytes(const ExpertPlacement& placement, std::int64_t block_bytes);
  [[nodiscard]] static std::int64_t host_bytes(const ExpertPlacement& placement, std::int64_t block_bytes);

 private:
  [[nodiscard]] std::int32_t& place(std::int64_t block, std::int64_t expert) {
    return places_[static_cast<std::size_t>(block * placement_.num_experts() + expert)];
  }
  [[nodiscard]] std::int32_t place(std::int64_t block, std::int64_t expert) const {
    return places_[static_cast<std::size_t>(block * placement_.num_experts() + expert)];
  }
  void fill(std::span<const BlockWeights> blocks);
  void write_table(std::int64_t block);

  ExpertPlacement placement_;
  ExpertBlock shape_;
  Memory& device_;
  Buffer on_device_;
  Buffer on_host_;
  Buffer table_;                      ///< [blocks, experts] places, on the device
  std::vector<std::int32_t> places_;  ///< the same
  const std::byte* base_ = nullptr;   ///< of place 0
  std::int32_t first_on_device_ = 0;
  std::int32_t first_on_host_ = 0;
  std::int32_t spare_ = 0;  ///< a place on the device that no expert has
};

}  // namespace baleen
