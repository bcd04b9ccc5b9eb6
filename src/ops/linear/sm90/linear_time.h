/// Predicted time of linear's kernels on Hopper. Plain C++: predictions need neither toolkit nor GPU.
///
/// Figures of a kernel's own work are fitted to bench/results/kernels-h200.csv (one H200 at 1,980 MHz), rows
/// "linear_fp8", and so that the two kernels meet where `sm90_linear_bench` found them equal: with few weight
/// rows between 192 and 193 tokens, with many between 64 and 65 (docs/ops/linear.md).
#pragma once

#include <cstdint>

#include "ops/linear/linear.h"
#include "ops/matmul/sm90/bf16_time.h"
#include "ops/operation/kernel_time.h"

namespace baleen::sm90 {

/// Weight rows of a tile of fp8_few: the widest tiles of which there is one for three multiprocessors in
/// four.
[[nodiscard]] constexpr std::int64_t few_tile_rows(std::int64_t all_rows, int num_units) {
  const auto enough = [&](std::int64_t rows) { return 4 * all_rows >= 3 * rows * num_units; };
  return enough(64) ? 64 : enough(32) ? 32 : 16;
}

/// Products with FP8 weights of one launch, as far as their time depends on them.
struct Fp8Shape {
  std::int64_t num_tokens = 0, num_inputs = 0;
  std::int64_t all_rows = 0;    ///< all weights have so many
  std::int64_t few_tiles = 0;   ///< tiles of few_tile_rows()
  std::int64_t many_tiles = 0;  ///< tiles of 128 weight rows

  Fp8Shape(const LinearArgs& args, int num_units)
      : num_tokens(args.x.extent(0)), num_inputs(args.x.extent(1)) {
    constexpr std::int64_t kManyRows = 128;
    const auto for_each = [&](auto add) {
      for (const LinearOutput& output : args.outputs)
        if (output.weight->format == WeightFormat::kFp8) add(output.weight->rows);
    };
    for_each([&](std::int64_t rows) { all_rows += rows; });
    const std::int64_t tile_rows = few_tile_rows(all_rows, num_units);
    for_each([&](std::int64_t rows) {
      few_tiles += pieces_of(rows, tile_rows);
      many_tiles += pieces_of(rows, kManyRows);
    });
  }

  [[nodiscard]] double slices() const { return static_cast<double>(pieces_of(num_inputs, 128)); }
  [[nodiscard]] KernelWork work(double slice_seconds) const {
    constexpr double kMemoryShare = 0.85;  // 3.6 TB/s of 4.25
    return {.bytes = static_cast<double>(all_rows * num_inputs),
            .memory_share = kMemoryShare,
            .busy_seconds = slices() * slice_seconds};
  }
};

/// A pass for every 64 tokens.
[[nodiscard]] inline KernelWork few_tokens_work(const Fp8Shape& shape, int num_units) {
  constexpr std::int64_t kPassTokens = 64;
  /// A slice of a tile: a block's chain of latencies, or L2's time for the tokens that every tile reads.
  constexpr double kLeastSeconds = 0.107e-6, kTileSeconds = 0.141e-6;
  const double tiles = static_cast<double>(shape.few_tiles) / num_units;
  return shape.work(static_cast<double>(pieces_of(shape.num_tokens, kPassTokens)) *
                    std::max(kLeastSeconds, kTileSeconds * tiles));
}

/// Tiles of 128 weight rows and 128 tokens, or 256.
[[nodiscard]] inline KernelWork many_tokens_work(const Fp8Shape& shape, int num_units) {
  constexpr double kTileSeconds = 0.42e-6, kLargeTileSeconds = 0.80e-6;  // a slice of a tile
  constexpr std::int64_t kTokens = 128;
  const auto of_tiles = [&](std::int64_t tokens, double seconds) {
    return seconds * pieces_in_turn(shape.many_tiles * pieces_of(shape.num_tokens, tokens), num_units);
  };
  return shape.work(std::min(of_tiles(kTokens, kTileSeconds), of_tiles(2 * kTokens, kLargeTileSeconds)));
}

/// Products of one input with the BF16 weights among the outputs, one launch for each number of segments, and
/// with those in FP8 that meet BF16 activations (blocks of 32), one for all.
[[nodiscard]] inline double bf16_products_seconds(const LinearArgs& args, int num_units,
                                                  const DeviceRates& rates) {
  double seconds = 0;
  for (const int num_segments : {1, bf16_time::kMaxSegments}) {
    bf16_time::Shape shape{
        .num_rows = args.x.extent(0), .num_inputs = args.x.extent(1), .num_segments = num_segments};
    for (const LinearOutput& output : args.outputs) {
      const WeightMatrix& weight = *output.weight;
      if (weight.format == WeightFormat::kBF16 && bf16_time::segments_of(weight.rows) == num_segments)
        shape.add(weight.rows);
    }
    if (shape.num_products > 0) seconds += bf16_time::seconds(shape, num_units, rates);
  }
  bf16_time::Shape small_blocks{
      .num_rows = args.x.extent(0), .num_inputs = args.x.extent(1), .has_fp8_weights = true};
  for (const LinearOutput& output : args.outputs) {
    if (output.weight->format == WeightFormat::kFp8x32) small_blocks.add(output.weight->rows);
  }
  if (small_blocks.num_products > 0) seconds += bf16_time::seconds(small_blocks, num_units, rates);
  return seconds;
}

using Fp8Work = KernelWork (*)(const Fp8Shape& shape, int num_units);
/// A call whose FP8 products are done by the kernel with this work.
template <Fp8Work kWork>
[[nodiscard]] double linear_seconds(const LinearArgs& args, const DeviceTraits& traits) {
  const Fp8Shape shape(args, traits.num_units);
  const double bf16 = bf16_products_seconds(args, traits.num_units, traits.rates);
  return shape.all_rows == 0 ? bf16 : bf16 + seconds_of(kWork(shape, traits.num_units), traits.rates);
}

}  // namespace baleen::sm90
