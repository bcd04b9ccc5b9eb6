#include "forward/batch_overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace baleen {

std::int64_t rows_of_two_batches(std::int64_t max_rows) {
  constexpr std::int64_t kRowsTogether = 2 * 32;  // padding and the scales of rows come in parts of 32
  return (max_rows + kRowsTogether - 1) / kRowsTogether * kRowsTogether;
}

std::int64_t middle_of(const RaggedBatch& batch, std::int64_t most_rows) {
  const std::int64_t num_rows = batch.num_rows(), half = (num_rows + 1) / 2;
  BALEEN_CHECK_LE(half, most_rows);
  std::int64_t middle = half, distance = num_rows / 8 + 1;
  for (const SequenceSlice& slice : batch.slices) {
    const std::int64_t cut = slice.first_row, away = std::abs(cut - half);
    if (away >= distance || std::max(cut, num_rows - cut) > most_rows) continue;
    middle = cut;
    distance = away;
  }
  return middle;
}

std::optional<std::string> overlap_violation(const ParallelPlan& plan) {
  if (plan.dp == 1 || plan.group_ranks() > 1 || plan.pp > 1) {
    return fmt::format(
        "‹micro-batch overlap›: {}; ranks overlap two micro-batches with data-parallel attention alone so "
        "far: ‹data parallelism› {}, or leave it out",
        to_text(plan), std::max<std::int64_t>(2, plan.num_devices));
  }
  const ExpertTransportTraits& transport = expert_transport(plan);
  if (transport.way != DispatchWay::kAssignments) {
    return fmt::format(
        "‹micro-batch overlap›: two micro-batches overlap where each assignment is sent by itself "
        "(all-to-all, peer-memory), and ‹expert transport› {} moves {}; leave one of the two out",
        transport.name, transport.moves);
  }
  return std::nullopt;
}

}  // namespace baleen
