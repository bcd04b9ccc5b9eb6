#include <algorithm>

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

// Seconds of a multiprocessor for a slice of a tile, of an H100. An RTX 4090 takes twice those of many
// tokens, the products of which are slower there.

double few_seconds(const ListShape& shape, int num_units, const DeviceRates& rates) {
  // Nearly all of its 250 to 330 instructions turn operands into BF16; with more tokens L2 brings as many
  // bytes of them as of weights.
  constexpr double kOneTile = 0.06e-6, kTwoTiles = 0.12e-6;
  return seconds_by_tiles(shape, kFewTileOutputs, kFewPassTokens,
                          shape.num_tokens <= kFewPassTokens / 2 ? kOneTile : kTwoTiles, num_units, rates);
}

double large_seconds(const ListShape& shape, int num_units, const DeviceRates& rates) {
  constexpr double kSliceSeconds = 1.4e-6;
  return seconds_by_tiles(shape, kLargeTileOutputs, kManyPassTokens, kSliceSeconds, num_units, rates);
}

namespace {

double small_seconds(const ListShape& shape, int num_units, const DeviceRates& rates) {
  constexpr double kSliceSeconds = 0.5e-6;
  return seconds_by_tiles(shape, kSmallTileOutputs, kManyPassTokens, kSliceSeconds, num_units, rates);
}

}  // namespace

double many_seconds(const ListShape& shape, int num_units, const DeviceRates& rates) {
  return std::min(large_seconds(shape, num_units, rates), small_seconds(shape, num_units, rates));
}

int many_tile_outputs(const ListShape& shape, int num_units, const DeviceRates& rates) {
  return large_seconds(shape, num_units, rates) <= small_seconds(shape, num_units, rates) ? kLargeTileOutputs
                                                                                          : kSmallTileOutputs;
}

}  // namespace baleen::sm80
