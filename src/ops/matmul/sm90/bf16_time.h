/// Predicted time of the kernels of BF16 products on Hopper, and which of them takes a launch. Plain C++:
/// predictions need neither toolkit nor GPU.
///
/// Figures of a kernel's own work are fitted to bench/results/kernels-h200.csv (one H200 at 1,980 MHz), rows
/// "router gate", "compressor", "grouped_linear" and "lm_head"; docs/ops/sm90/matmul.md sets predictions
/// beside them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/operation/kernel_time.h"

namespace baleen::sm90::bf16_time {

constexpr std::int64_t kMaxProducts = 8;  ///< one launch makes
constexpr std::int64_t kSliceInputs = 128;
/// Of weights with few outputs: otherwise a decode step would leave most of the chip idle. (The last may be
/// empty.)
constexpr int kMaxSegments = 8;

/// Into how many segments the sums of a weight with so many outputs are cut: from 8,192 on every SM has
/// outputs of its own. A matter of bits, not of time: it depends on the weight alone.
[[nodiscard]] constexpr int segments_of(std::int64_t num_outputs) {
  constexpr std::int64_t kManyOutputs = 8192;
  return num_outputs >= kManyOutputs ? 1 : kMaxSegments;
}

/// One launch, as far as its time depends on it.
struct Shape {
  std::int64_t num_rows = 0;
  std::int64_t num_inputs = 0;
  std::int64_t num_groups = 1;
  int num_segments = 1;
  bool has_fp8_weights = false;
  std::array<std::int64_t, kMaxProducts> outputs{};  ///< each product has so many
  std::int64_t num_products = 0;

  void add(std::int64_t num_outputs) { outputs[static_cast<std::size_t>(num_products++)] = num_outputs; }
  [[nodiscard]] constexpr std::int64_t all_outputs() const { return tiles_of(1); }
  /// Tiles of so many outputs; one lies in one product.
  [[nodiscard]] constexpr std::int64_t tiles_of(std::int64_t tile_outputs) const {
    std::int64_t tiles = 0;
    for (std::int64_t i = 0; i < num_products; ++i)
      tiles += pieces_of(outputs[static_cast<std::size_t>(i)], tile_outputs);
    return tiles;
  }
};

enum class Kernel : std::uint8_t {
  kStream,  ///< bf16_stream, and bf16_stream_fp8 where weights are FP8
  kSplit,   ///< bf16_split
  kTile     ///< bf16_tile
};

/// Tokens that a pass of the kernels for few rows serves.
constexpr std::int64_t kPassTokens = 64;
/// Outputs of a tile of kStream and kTile.
constexpr std::int64_t kTileOutputs = 128;

/// How bf16_split cuts its outputs: the tile that takes the least time, and how long the block takes that has
/// most to do, in rows of half a K that an SM loads meanwhile. `pass_tokens`: 8, 16, 32 or 64.
struct SplitTile {
  std::int64_t outputs = 0;
  double rows = 0;
};
[[nodiscard]] constexpr SplitTile split_tile(const Shape& shape, std::int64_t pass_tokens, int num_units) {
  constexpr std::int64_t kPair = 2;  // blocks of a tile
  /// What a round of blocks takes beside its bytes: start, a trip to memory, the exchange of sums.
  constexpr std::int64_t kRoundRows = 32;
  const std::int64_t loaded_tokens = std::min(pass_tokens, shape.num_rows);
  const auto cut = [&](std::int64_t outputs) {
    const std::int64_t blocks = kPair * pieces_of(shape.num_rows, pass_tokens) * shape.tiles_of(outputs);
    return SplitTile{
        outputs, static_cast<double>(pieces_of(blocks, num_units) * (outputs + loaded_tokens + kRoundRows))};
  };
  constexpr std::array<std::int64_t, 8> kOutputs{64, 56, 48, 40, 32, 24, 16, 8};
  return cut(quickest(kOutputs, [&](std::int64_t outputs) { return cut(outputs).rows; }));
}

/// How long the pair of blocks of bf16_tile takes that has most to do, with tiles of `tile_tokens` tokens: in
/// tokens.
[[nodiscard]] constexpr double tile_load(const Shape& shape, std::int64_t tile_tokens, int num_units) {
  constexpr std::int64_t kPair = 2;
  /// What a tile costs beyond its tokens: filling the ring, storing y, weights that fewer tokens share.
  constexpr std::int64_t kTileOverhead = 40;
  const std::int64_t pairs =
      pieces_of(shape.tiles_of(kTileOutputs) / shape.num_groups, kPair) * shape.num_groups;
  const std::int64_t items = pairs * pieces_of(shape.num_rows, tile_tokens);
  return static_cast<double>(pieces_of(items, std::max(1, num_units / static_cast<int>(kPair))) *
                             (tile_tokens + kTileOverhead));
}

/// Tokens of bf16_tile's tiles, largest first. With segments 256 tokens have no registers for two sets of
/// sums.
inline constexpr std::array<std::int64_t, 2> kTileTokens{256, 128};
inline constexpr std::array<std::int64_t, 3> kSegmentTileTokens{192, 128, 64};

/// The tile that is done soonest.
[[nodiscard]] constexpr std::int64_t tile_tokens(const Shape& shape, int num_units) {
  const auto load = [&](std::int64_t tokens) { return tile_load(shape, tokens, num_units); };
  return shape.num_segments == 1 ? quickest(kTileTokens, load) : quickest(kSegmentTileTokens, load);
}

/// All weights pass once for every 64 tokens.
[[nodiscard]] constexpr KernelWork stream_work(const Shape& shape, int num_units) {
  /// A slice of a tile: dequantising waits for latencies as long as BF16 weights wait for their bytes.
  constexpr double kFp8SliceSeconds = 0.50e-6, kBf16SliceSeconds = 0.62e-6;
  constexpr double kFp8Share = 0.68;  // 2.9 TB/s of 4.25
  const std::int64_t tiles = shape.tiles_of(kTileOutputs), passes = pieces_of(shape.num_rows, kPassTokens);
  const std::int64_t blocks = std::min<std::int64_t>(tiles, num_units);
  // Two passes fit side by side where tiles are few, and weights come once for both; more have not been seen
  // to gain.
  const std::int64_t turns = std::max(pieces_of(blocks * passes, num_units), pieces_of(passes, 2));
  const bool come_once = blocks * passes <= num_units;
  const double slices = static_cast<double>(pieces_of(shape.num_inputs, kSliceInputs));
  const double weight_bytes =
      static_cast<double>(shape.all_outputs() * shape.num_inputs) * (shape.has_fp8_weights ? 1 : 2);
  return {.bytes = weight_bytes * static_cast<double>(come_once ? 1 : passes),
          .memory_share = shape.has_fp8_weights ? kFp8Share : 1,
          .busy_seconds = static_cast<double>(turns * pieces_of(tiles, std::max<std::int64_t>(blocks, 1))) *
                          slices * (shape.has_fp8_weights ? kFp8SliceSeconds : kBf16SliceSeconds)};
}

/// The same with the segments side by side.
[[nodiscard]] constexpr KernelWork split_work(const Shape& shape, int num_units) {
  constexpr double kRowSeconds = 0.054e-6;  // of 4,096 inputs
  constexpr double kRowInputs = 4096;
  Shape pass = shape;
  pass.num_rows = std::min(shape.num_rows, kPassTokens);
  const std::int64_t passes = pieces_of(shape.num_rows, kPassTokens);
  const double rows = split_tile(pass, kPassTokens, num_units).rows * static_cast<double>(passes);
  return {.bytes = 2.0 * static_cast<double>(shape.all_outputs() * shape.num_inputs),
          .busy_seconds = rows * kRowSeconds * static_cast<double>(shape.num_inputs) / kRowInputs};
}

/// As fast as the tensor cores multiply.
[[nodiscard]] constexpr KernelWork tile_work(const Shape& shape, int num_units) {
  constexpr double kTokenSliceSeconds = 4.8e-9;
  const double load = tile_load(shape, tile_tokens(shape, num_units), num_units);
  return {
      .bytes = static_cast<double>(shape.all_outputs() * shape.num_inputs) * (shape.has_fp8_weights ? 1 : 2),
      .busy_seconds =
          load * static_cast<double>(pieces_of(shape.num_inputs, kSliceInputs)) * kTokenSliceSeconds};
}

[[nodiscard]] constexpr double seconds(Kernel kernel, const Shape& shape, int num_units,
                                       const DeviceRates& rates) {
  return seconds_of(kernel == Kernel::kTile    ? tile_work(shape, num_units)
                    : kernel == Kernel::kSplit ? split_work(shape, num_units)
                                               : stream_work(shape, num_units),
                    rates);
}

/// The kernel that takes a launch: the one for few rows and any, with as many segments as it has, or the one
/// for many.
[[nodiscard]] constexpr Kernel kernel_for(const Shape& shape, int num_units, const DeviceRates& rates) {
  const std::array<Kernel, 2> kernels{shape.num_segments == 1 ? Kernel::kStream : Kernel::kSplit,
                                      Kernel::kTile};
  return quickest(kernels, [&](Kernel kernel) { return seconds(kernel, shape, num_units, rates); });
}

/// Of a launch, by the kernel that takes it.
[[nodiscard]] constexpr double seconds(const Shape& shape, int num_units, const DeviceRates& rates) {
  return seconds(kernel_for(shape, num_units, rates), shape, num_units, rates);
}

}  // namespace baleen::sm90::bf16_time
