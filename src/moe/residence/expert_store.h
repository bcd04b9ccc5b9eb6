/// Routed experts in two memories, the GPU's and pinned memory of the host, which kernels read over PCIe; and
/// on disk below these. Those in memory lie on one lattice of equally long blocks that spans both, so that an
/// expert's place is one whole number, read by kernels from a table in the GPU's memory (`ExpertPlaces`). The
/// same bytes at another place give the same bits.
///
/// Kernels of a step of few tokens fetch those of the experts outside the GPU's memory that are chosen: the
/// device alone knows which. They come to slots of their block, where the next tokens find them, or, where
/// these are taken, to a buffer. A step of many tokens, which needs nearly all of them, finds them copied to
/// two buffers: a block's experts come while the block before it is computed. Between such steps the buffers
/// hold copies of experts that are used much (`CachedExperts`), so that kernels find these like those that
/// lie in the GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "device/background_copies.h"
#include "model/weight_tree.h"
#include "moe/residence/cached_experts.h"
#include "moe/residence/expert_block.h"
#include "moe/residence/expert_computer.h"
#include "moe/residence/expert_guesses.h"
#include "moe/residence/expert_placement.h"
#include "moe/residence/expert_reader.h"
#include "tensor/buffer.h"

namespace baleen {

/// Where experts lie, and what became of those that tokens chose.
struct ExpertPlaceStats {
  ExpertCounts placed;
  ExpertFetchCounts fetched;
  std::optional<HostComputeStats> computed = std::nullopt;  ///< where the host computes experts
};

class ExpertStore {
 public:
  /// Copies the routed experts of the first of `blocks`, as many as `counts` has, which may differ in format
  /// from block to block; an expert takes what the largest of them does. With experts on disk, the
  /// arrays of `blocks` must outlive this. `device`: what kernels run in; `host`: memory that they reach at
  /// the same addresses as the host does; `copies` from there to the device: null where nothing is to be
  /// copied for steps of many tokens; `made` makes arrays of `blocks` that are not there yet. Throws `Error`
  /// when either memory has not enough.
  ExpertStore(std::span<const BlockWeights> blocks, const ExpertCounts& counts, Memory& device, Memory& host,
              BackgroundCopies* copies, std::shared_ptr<const MadeBytes> made = nullptr);
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;

  /// Makes `tree`'s blocks read their routed experts here.
  void bind(WeightTree& tree) const;
  /// Exchanges the bytes of two experts between steps: after all that was queued, before what is queued next.
  /// A swap is one block each way; of an expert on disk one is read and none written. What was cached of them
  /// is not any more.
  void swap(const ExpertSwap& swap);

  /// Copies of experts in the copy buffers.
  [[nodiscard]] const CachedExperts& cached() const { return cached_; }
  /// Between steps, like a swap: copies experts of the host's memory to places of the buffers. A step of many
  /// tokens, and `make_room`, give these places up.
  void cache(std::span<const CachedExperts::Change> changes);
  /// Before a step of `num_rows` tokens whose kernels copy experts: the buffers' places for these are free.
  void make_room(std::int64_t num_rows);

  /// What experts that lie outside the GPU's memory take by either way, with so many threads that compute.
  /// Before steps. Wants experts of one shape and format FP4, some of them in the host's memory or on disk.
  [[nodiscard]] HostExpertTimes measure_host(float swiglu_limit, int num_threads);
  /// From now on the host computes some experts of steps with few tokens, whose kernels split them by
  /// `times`, which `measure_host` has found. Before `bind`.
  void compute_on_host(const HostExpertTimes& times);
  /// For tests: by these times alone.
  void hold_times(const HostExpertTimes& times) { computer_->hold(times); }
  /// Copies of chosen experts take as long as at this rate at least. Before `bind`.
  void impose_link(double bytes_per_second);

  [[nodiscard]] const ExpertPlacement& placement() const { return placement_; }
  /// Whether the routed experts of a block are here.
  [[nodiscard]] bool has(std::int64_t block) const { return block < placement_.counts().num_blocks; }
  /// Where the block of an expert that is not on disk is; what it holds can be read by whoever reads that
  /// memory.
  [[nodiscard]] const std::byte* address(std::int64_t block, std::int64_t expert) const {
    return base_ + std::int64_t{place(block, expert)} * unit_;
  }
  [[nodiscard]] const ExpertBlock& shape(std::int64_t block) const {
    return shapes_[static_cast<std::size_t>(block)];
  }

  /// What kernels counted since the start. Waits for the device.
  [[nodiscard]] ExpertFetchCounts counts() const;
  /// Throws `LostDevice` when a step has not got what it needs from disk.
  void check() const {
    if (reader_) reader_->check();
    if (computer_) computer_->check();
  }
  /// Empty where the host computes nothing.
  [[nodiscard]] std::optional<HostComputeStats> computed() const {
    if (!computes_) return std::nullopt;
    HostComputeStats stats = computer_->stats();
    stats.fetch_seconds = 1e-9 * stats.times.fetch_piece * num_fetch_pieces(unit_);
    return stats;
  }

  /// For steps of so many rows the router's choice is guessed a block ahead.
  [[nodiscard]] bool guesses_for(std::int64_t num_rows) const {
    return guesses_ahead_ && num_rows <= kMaxRowsOfKernelCopies && placement_.counts().num_slots > 0;
  }
  /// Before steps are captured. On in the beginning.
  void set_guessing(bool on) { guesses_ahead_ = on; }
  [[nodiscard]] const ExpertGuesses& guesses() const { return guesses_; }
  /// What a router of such a step sets (`RouteArgs::routed`).
  [[nodiscard]] std::int32_t* routed() const;

  // A step of many tokens over blocks [begin, end), in the order of the calls: `begin_pass`, then for each
  // block `arrive`, operations with `copied_places`, `leave`. Afterwards no copy is under way.

  [[nodiscard]] bool copies_for(std::int64_t num_rows) const {
    return copies_ != nullptr && num_rows > kMaxRowsOfKernelCopies && placement_.counts().num_away() > 0;
  }
  void begin_pass(std::int64_t begin, std::int64_t end);
  void arrive(std::int64_t block);
  void leave(std::int64_t block);
  [[nodiscard]] ExpertPlaces copied_places(std::int64_t block) const;

  /// What a store takes of either memory: beside its experts, of the device's a block for swaps, two copy
  /// buffers, slots, tables and counters; of the host's a block, because blocks begin at whole places, and
  /// room for what is read from disk.
  [[nodiscard]] static std::int64_t device_bytes(const ExpertCounts& counts, std::int64_t block_bytes);
  [[nodiscard]] static std::int64_t host_bytes(const ExpertCounts& counts, std::int64_t block_bytes);

  /// Rows of a step whose kernels copy the chosen experts. Not below what graphs are captured for: they hold
  /// no copies of the background.
  static constexpr std::int64_t kMaxRowsOfKernelCopies = 256;

 private:
  /// What every block has in the GPU's memory: tables of places, [E] each, and the state of its slots.
  struct Tables {
    std::int64_t of_expert, buffered, copied, state, bytes;  ///< offsets, and the size
    explicit Tables(std::int64_t num_experts);
  };
  /// What all blocks share there.
  struct Shared {
    ExpertFetchCounts counts;
    std::int32_t routed = 0;
    HostExpertState host;
  };

  [[nodiscard]] std::int32_t& place(std::int64_t block, std::int64_t expert) {
    return places_[static_cast<std::size_t>(block * placement_.counts().num_experts + expert)];
  }
  [[nodiscard]] std::int32_t place(std::int64_t block, std::int64_t expert) const {
    return places_[static_cast<std::size_t>(block * placement_.counts().num_experts + expert)];
  }
  [[nodiscard]] std::byte* at(std::int32_t place) const {
    return const_cast<std::byte*>(base_) + std::int64_t{place} * unit_;
  }
  /// The first place of the buffer that a block's experts are copied to.
  [[nodiscard]] std::int32_t copy_buffer(std::int64_t block) const {
    return first_in_buffers_ +
           static_cast<std::int32_t>(block % 2 * placement_.counts().most_away_of_a_block());
  }
  [[nodiscard]] const std::byte* tables_of(std::int64_t block) const {
    return tables_.data() + block * Tables(placement_.counts().num_experts).bytes;
  }
  [[nodiscard]] Shared& shared() const { return *reinterpret_cast<Shared*>(shared_.data()); }
  [[nodiscard]] ExpertPlaces places_in(const std::byte* table) const;
  [[nodiscard]] ExpertSlots slots_of(std::int64_t block) const;
  /// An expert in the host's memory or, place -1, in the checkpoint.
  [[nodiscard]] ExpertWeights weights_at(std::int64_t block, std::int64_t expert, std::int32_t place) const;
  /// Where all blocks' experts have one shape.
  [[nodiscard]] std::optional<ExpertWeights> expert_on_host(std::int32_t place) const;
  /// Nanoseconds that copying a piece takes.
  [[nodiscard]] double measured_piece_ns();
  /// `each(expert)` of the block's experts outside the GPU's memory, in the order of their copies.
  template <class Each>
  void for_each_away(std::int64_t block, Each each) const;
  void copy_to_buffer(std::int64_t block);
  void copy_from_disk(std::int64_t block, std::int64_t expert, std::byte* to);
  void fill(std::span<const BlockWeights> blocks, const MadeBytes* made);
  /// The first `count` places of the buffers hold no cached expert afterwards.
  void drop_cached(std::int64_t count);
  void drop_cached(const BlockExpert& expert, std::set<std::int64_t>& blocks);
  /// Of a block, where experts lie. Slots keep what they have: the same bytes, wherever else they lie.
  void write_places(std::int64_t block);
  void empty_slots(std::int64_t block);

  ExpertPlacement placement_;
  CachedExperts cached_;
  std::vector<ExpertBlock> shapes_;  ///< one a block
  std::int64_t unit_;                ///< from place to place: bytes of the largest
  Memory& device_;
  Memory& host_;
  BackgroundCopies* copies_;
  Buffer on_device_;
  Buffer on_host_;
  Buffer tables_;  ///< `Tables` of each block, on the device
  Buffer shared_;
  ExpertGuesses guesses_;
  std::unique_ptr<ExpertReader> reader_;  ///< null: nothing is on disk
  bool computes_ = false;                 ///< kernels ask `computer_`
  std::uint32_t least_piece_ns_ = 0;
  std::vector<std::int32_t> places_;  ///< [blocks, experts], as on the device
  const std::byte* base_ = nullptr;   ///< where place 0 begins
  std::int32_t first_on_device_ = 0;
  std::int32_t first_on_host_ = 0;
  std::int32_t first_in_buffers_ = 0;
  std::int32_t first_slot_ = 0;
  std::int64_t pass_end_ = 0;
  bool guesses_ahead_ = true;
  std::int64_t num_staged_ = 0;  ///< experts read from disk for steps of many tokens, since the start
  std::int32_t spare_ = 0;       ///< a place on the device that no expert has
  std::unique_ptr<ExpertComputer> computer_;  ///< null: nothing has been measured; its thread reads the above
};

}  // namespace baleen
