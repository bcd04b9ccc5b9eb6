/// Which of a step's experts outside the device's memory are fetched and which the host computes. Plain
/// functions, for kernels and tests.
///
/// Both go on side by side, so the split is the one whose slower side takes least. Experts are ordered: those
/// of which the device has most pieces first, then those with most rows, then by number, and those on disk
/// last. The first ones are fetched. An expert on disk is never fetched: the host has to read it in any case.
#pragma once

#include <cstdint>

#include "ops/experts/expert_places.h"

namespace baleen {

/// An expert that some token has and the device has not, or not whole.
struct SplitExpert {
  std::int32_t expert;
  std::int32_t num_rows;    ///< tokens that have it, at least 1
  std::int32_t num_pieces;  ///< that are missing
  bool on_disk;
};

/// Whether `a` is fetched rather than `b`.
constexpr bool is_fetched_before(const SplitExpert& a, const SplitExpert& b) {
  if (a.on_disk != b.on_disk) return b.on_disk;
  if (a.num_pieces != b.num_pieces) return a.num_pieces < b.num_pieces;
  if (a.num_rows != b.num_rows) return a.num_rows > b.num_rows;
  return a.expert < b.expert;
}

constexpr std::uint64_t compute_ns(const SplitExpert& expert, const HostExpertTimes& times) {
  return times.compute_expert +
         static_cast<std::uint64_t>(expert.num_rows - 1) * std::uint64_t{times.compute_row};
}

/// What a split takes, the slower side, with the number of experts that are fetched: the least such word is
/// the split to take, of equal ones the one that fetches most, for what is fetched may be chosen again.
struct SplitTime {
  static constexpr int kCountBits = 10;
  static constexpr std::uint64_t kImpossible = ~std::uint64_t{0};

  std::uint64_t word = kImpossible;

  [[nodiscard]] constexpr int num_fetched() const {
    return static_cast<int>(((std::uint64_t{1} << kCountBits) - 1) - (word & ((1U << kCountBits) - 1)));
  }
  [[nodiscard]] constexpr std::uint64_t ns() const { return word >> kCountBits; }
};

/// The split that fetches what is before `first_computed` in the order and leaves it and the rest to the
/// host; null: that fetches all. `num_experts` at most kMaxExpertsOfBlock, in any order.
constexpr SplitTime split_time(const SplitExpert* experts, int num_experts, const SplitExpert* first_computed,
                               const HostExpertTimes& times) {
  std::uint64_t fetch = 0, compute = 0;
  int num_fetched = 0;
  for (int i = 0; i < num_experts; ++i) {
    const SplitExpert& expert = experts[i];
    if (first_computed != nullptr && !is_fetched_before(expert, *first_computed)) {
      compute += compute_ns(expert, times);
    } else if (expert.on_disk) {
      return {};
    } else {
      fetch += static_cast<std::uint64_t>(expert.num_pieces) * times.fetch_piece;
      ++num_fetched;
    }
  }
  if (first_computed != nullptr) {
    const std::int64_t total = static_cast<std::int64_t>(compute) + times.hand_over;
    compute = total > 0 ? static_cast<std::uint64_t>(total) : 0;
  }
  const std::uint64_t slower = fetch > compute ? fetch : compute;
  const std::uint64_t complement = ((std::uint64_t{1} << SplitTime::kCountBits) - 1) - num_fetched;
  return {slower << SplitTime::kCountBits | complement};
}

/// Experts before this one in the order.
constexpr int fetched_before(const SplitExpert* experts, int num_experts, const SplitExpert& expert) {
  int before = 0;
  for (int i = 0; i < num_experts; ++i) before += is_fetched_before(experts[i], expert) ? 1 : 0;
  return before;
}

}  // namespace baleen
