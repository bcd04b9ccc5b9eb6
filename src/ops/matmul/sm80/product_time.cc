#include "ops/matmul/sm80/product_list.h"

namespace baleen::sm80 {

namespace {

/// `slice_seconds`: of a multiprocessor, for a slice of a tile.
double seconds_by_tiles(const ListShape& shape, int tile_outputs, int pass_tokens, double slice_seconds,
                        int num_units, const DeviceRates& rates) {
  constexpr double kMemoryShare = 0.8;  // that products of few tokens are taken to reach
  const std::int64_t tiles =
      pieces_of(shape.all_outputs, tile_outputs) * pieces_of(shape.num_tokens, pass_tokens);
  const double slices = static_cast<double>(pieces_of(shape.num_inputs, 128));
  return seconds_of({.bytes = shape.weight_bytes,
                     .memory_share = kMemoryShare,
                     .busy_seconds = pieces_in_turn(tiles, num_units) * slices * slice_seconds},
                    rates);
}

}  // namespace

// Figures are counts of instructions for a slice, at 2.5 GHz and half of what a multiprocessor of an RTX 4090
// can issue: 300 for 16 x 16, nearly all of which turn operands into BF16; 5,200, and 512 of matrices of four
// cycles each, for 128 x 64.

double few_seconds(const ListShape& shape, int num_units, const DeviceRates& rates) {
  constexpr double kSliceSeconds = 0.06e-6;
  return seconds_by_tiles(shape, kFewTileOutputs, kFewPassTokens, kSliceSeconds, num_units, rates);
}

double many_seconds(const ListShape& shape, int num_units, const DeviceRates& rates) {
  constexpr double kSliceSeconds = 1.0e-6;
  return seconds_by_tiles(shape, kManyTileOutputs, kManyPassTokens, kSliceSeconds, num_units, rates);
}

}  // namespace baleen::sm80
