/// Which expert each slot of a layer holds, and which slot computes an assignment.   (source: parallel MoE 8)
///
///     logical id    an expert of the checkpoint                                    [0, E)
///     physical id   a slot: rank * slots_per_rank + local id                       [0, P), P >= E
///     local id      place among the slots of a rank                                [0, slots_per_rank)
///
/// Replicas are bit-equal and combine adds in ascending logical id, so neither the placement nor the choice
/// of a replica changes a result.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace baleen {

enum class ExpertOrder : std::uint8_t {
  kLinear,      ///< contiguous blocks; the first E mod ranks ranks hold one more
  kRoundRobin,  ///< expert e on rank e mod ranks
};

/// Which of an expert's copies computes assignment `index` (row * k + slot) of a rank's step: Knuth's
/// multiplicative hash, of which the upper bits count: the lower ones of the product follow the index.
[[nodiscard]] constexpr std::int64_t copy_of(std::int64_t index, std::int64_t num_copies) {
  constexpr std::uint32_t kMultiplier = 2654435761U;
  return static_cast<std::int64_t>((static_cast<std::uint32_t>(index) * kMultiplier) >> 16U) % num_copies;
}

class ExpertMap {
 public:
  /// A slot that holds no expert.
  static constexpr std::int32_t kEmpty = -1;

  ExpertMap() = default;
  /// `physical_to_logical`: [P], ids in [0, num_experts) or kEmpty, each expert at least once; `num_ranks`
  /// divides P. Throws `Error` otherwise.
  ExpertMap(std::vector<std::int32_t> physical_to_logical, std::int64_t num_experts, std::int64_t num_ranks);
  /// One of each expert as `order` says, then a second copy of each, a third, ... by rising id in what slots
  /// remain, on a rank without that expert where there is one. With `num_redundant` 0 and experts that the
  /// ranks do not divide, the last slots of some ranks stay empty. `num_experts` + `num_redundant` slots
  /// otherwise, which `num_ranks` divides.
  [[nodiscard]] static ExpertMap placed(ExpertOrder order, std::int64_t num_experts,
                                        std::int64_t num_redundant, std::int64_t num_ranks);

  [[nodiscard]] std::int64_t num_experts() const { return std::ssize(replicas_); }
  [[nodiscard]] std::int64_t num_slots() const { return std::ssize(slots_); }
  [[nodiscard]] std::int64_t slots_per_rank() const { return slots_per_rank_; }
  /// [P]
  [[nodiscard]] std::span<const std::int32_t> physical_to_logical() const { return slots_; }
  /// Slots that hold `expert`, ascending; at least one.
  [[nodiscard]] std::span<const std::int32_t> replicas(std::int64_t expert) const {
    return replicas_[static_cast<std::size_t>(expert)];
  }
  /// Logical ids in the slots of `rank`.
  [[nodiscard]] std::span<const std::int32_t> local_to_logical(std::int64_t rank) const {
    return physical_to_logical().subspan(static_cast<std::size_t>(rank * slots_per_rank_),
                                         static_cast<std::size_t>(slots_per_rank_));
  }
  /// The slot that computes `expert` for assignment `index`: a function of the two alone, which spreads
  /// assignments evenly over replicas (`copy_of`).
  [[nodiscard]] std::int32_t slot_for(std::int32_t expert, std::int64_t index) const;

  /// The same for kernels: [E + 1 + P], the slots of expert e are entries [table[e], table[e + 1]). As long
  /// for every map of as many experts and slots.
  [[nodiscard]] std::vector<std::int32_t> table() const;

  bool operator==(const ExpertMap&) const = default;

 private:
  std::int64_t slots_per_rank_ = 0;
  std::vector<std::int32_t> slots_;
  std::vector<std::vector<std::int32_t>> replicas_;
};

}  // namespace baleen
