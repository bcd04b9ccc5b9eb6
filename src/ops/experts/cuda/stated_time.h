/// Predicted time of experts in the stated order. Plain C++: predictions need neither toolkit nor GPU.
///
/// Figures are counts of instructions for 16 weight rows and a group of 32 inputs (docs/ops/experts.md), at
/// 1.2 GHz times four: what of a multiprocessor's issue slots such kernels are taken to use.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/experts/experts.h"
#include "ops/operation/kernel_time.h"

namespace baleen::BALEEN_ARCH {

/// Instructions of a tile of up to `tile_tokens` tokens: to make operands of weights, and for every
/// `column_tokens` tokens.
struct StatedTile {
  double tile_tokens, column_tokens;
  double weight_instructions, column_instructions;
  double num_launches;
};
inline constexpr StatedTile kFewStatedTile{4, 4, 25, 16, 3}, kManyStatedTile{64, 8, 56, 18, 5};

template <StatedTile kTile>
[[nodiscard]] double stated_seconds(const ExpertsArgs& args, const DeviceTraits& traits) {
  constexpr double kMemoryShare = 0.65, kInstructionsPerSecond = 4 * 1.2e9, kCodesOfStep = 16 * 32;
  const ExpertWeights& first = args.routed[0];
  const double bytes = expected_experts_cost(args).weight_bytes;
  const double bytes_of_one = first.w1.stored_bytes() + first.w2.stored_bytes() + first.w3.stored_bytes();
  const double experts = std::max(1.0, bytes / bytes_of_one);
  const double rows =
      std::max(1.0, static_cast<double>(args.x.extent(0) * (args.ids.extent(1) + 1)) / experts);
  const double instructions = std::ceil(rows / kTile.tile_tokens) * kTile.weight_instructions +
                              std::ceil(rows / kTile.column_tokens) * kTile.column_instructions;
  const double steps = 3 * experts * static_cast<double>(first.w1.rows * first.w1.cols) / kCodesOfStep;
  return seconds_of({.bytes = bytes,
                     .memory_share = kMemoryShare,
                     .busy_seconds = steps * instructions / (kInstructionsPerSecond * traits.num_units),
                     .num_launches = kTile.num_launches},
                    traits.rates);
}

}  // namespace baleen::BALEEN_ARCH
