/// Routed experts in two memories: the GPU's, and pinned memory of the host, which kernels read over PCIe.
/// All lie on one lattice of equally long blocks that spans both, so that an expert's place is one whole
/// number, read by kernels from a table in the GPU's memory (`ExpertPlaces`). The same bytes at another place
/// give the same bits.
///
/// Kernels of a step of few tokens copy those of the host's experts that are chosen (`ExpertPlaces::copied`):
/// the device alone knows which. A step of many, which needs nearly all of them, finds them copied: a block's
/// experts come over PCIe while the block before it is computed. Either way they come to one of two buffers
/// alternately.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/background_copies.h"
#include "model/expert_block.h"
#include "model/expert_placement.h"
#include "model/weight_tree.h"
#include "tensor/buffer.h"

namespace baleen {

class ExpertStore {
 public:
  /// Copies the routed experts of the first of `blocks`, as many as `counts` has. `device`: what kernels run
  /// in; `host`: memory that they reach at the same addresses as the host does; `copies` from there to the
  /// device: null where nothing is to be copied for steps of many tokens. Throws `Error` when either memory
  /// has not enough.
  ExpertStore(std::span<const BlockWeights> blocks, const ExpertCounts& counts, Memory& device, Memory& host,
              BackgroundCopies* copies);
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;

  /// Makes `tree`'s blocks read their routed experts here.
  void bind(WeightTree& tree) const;
  /// Exchanges the bytes of two experts between steps: after all that was queued, before what is queued next.
  /// A swap is one block each way.
  void swap(const ExpertSwap& swap);

  [[nodiscard]] const ExpertPlacement& placement() const { return placement_; }
  /// Where an expert's block is; what it holds can be read by whoever reads that memory.
  [[nodiscard]] const std::byte* address(std::int64_t block, std::int64_t expert) const {
    return base_ + std::int64_t{place(block, expert)} * shape_.bytes();
  }
  [[nodiscard]] const ExpertBlock& shape() const { return shape_; }

  // A step of many tokens over blocks [begin, end), in the order of the calls: `begin_pass`, then for each
  // block `arrive`, operations with `copied_places`, `leave`. Afterwards no copy is under way.

  [[nodiscard]] bool copies_for(std::int64_t num_rows) const {
    return copies_ != nullptr && num_rows > kMaxRowsOfKernelCopies && placement_.counts().num_on_host > 0;
  }
  void begin_pass(std::int64_t begin, std::int64_t end);
  void arrive(std::int64_t block);
  void leave(std::int64_t block);
  [[nodiscard]] ExpertPlaces copied_places(std::int64_t block) const;

  /// What a store takes of either memory beside its experts: of the device's a block for swaps, two copy
  /// buffers and two tables; of the host's a block, because blocks begin at whole places.
  [[nodiscard]] static std::int64_t device_bytes(const ExpertCounts& counts, std::int64_t block_bytes);
  [[nodiscard]] static std::int64_t host_bytes(const ExpertCounts& counts, std::int64_t block_bytes);

  /// Rows of a step whose kernels copy the chosen experts. Not below what graphs are captured for: they hold
  /// no copies of the background.
  static constexpr std::int64_t kMaxRowsOfKernelCopies = 256;

 private:
  [[nodiscard]] std::int32_t& place(std::int64_t block, std::int64_t expert) {
    return places_[static_cast<std::size_t>(block * placement_.counts().num_experts + expert)];
  }
  [[nodiscard]] std::int32_t place(std::int64_t block, std::int64_t expert) const {
    return places_[static_cast<std::size_t>(block * placement_.counts().num_experts + expert)];
  }
  [[nodiscard]] std::byte* at(std::int32_t place) const {
    return const_cast<std::byte*>(base_) + std::int64_t{place} * shape_.bytes();
  }
  /// The first place of the buffer that a block is copied to.
  [[nodiscard]] std::int32_t copy_buffer(std::int64_t block) const {
    return first_in_rooms_ +
           static_cast<std::int32_t>(block % 2 * placement_.counts().most_on_host_of_a_block());
  }
  [[nodiscard]] ExpertPlaces places_in(const Buffer& table, std::int64_t block) const;
  /// `visit(expert, place)` of the block's experts on the host, in the order of their copies.
  template <class Visit>
  void for_each_on_host(std::int64_t block, Visit visit) const;
  void copy_to_room(std::int64_t block);
  void fill(std::span<const BlockWeights> blocks);
  void write_tables(std::int64_t block);

  ExpertPlacement placement_;
  ExpertBlock shape_;
  Memory& device_;
  BackgroundCopies* copies_;
  Buffer on_device_;
  Buffer on_host_;
  Buffer table_;                      ///< [blocks, experts] places, on the device
  Buffer copied_table_;               ///< the same with places in copy buffers for experts on the host
  std::vector<std::int32_t> places_;  ///< the same
  const std::byte* base_ = nullptr;   ///< of place 0
  std::int32_t first_on_device_ = 0;
  std::int32_t first_on_host_ = 0;
  std::int32_t first_in_rooms_ = 0;
  std::int64_t pass_end_ = 0;
  std::int32_t spare_ = 0;  ///< a place on the device that no expert has
};

}  // namespace baleen
