#include <algorithm>

#include "ops/compressor/pooled_rows.h"
#include "ops/compressor/pooling.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/index_key_ops.h"

namespace baleen {
namespace {

constexpr double kFloatPairBytes = 8;  ///< a value of kv and one of gate, float32
constexpr double kPoolOps = 6;  ///< a pooled value takes: maximum, difference, exponential, two sums, product

/// In the backward: the softmax again (maximum, difference, exponential, sum, division), times the entry's
/// gradient, less the entry, times that, and three sums.
constexpr double kPoolBackwardOps = 11;

/// What the entries of one sequence are made of.
struct Pooling {
  double num_entries = 0;
  double num_rows = 0;      ///< pooled, over all entries
  double num_old_rows = 0;  ///< those of them that stand before this step
  double num_kept = 0;      ///< rows of this step that a later one pools
};

/// `overlap`: an entry also pools the rows of the block before its own, of which there is none before entry
/// 0.
Pooling pooling_of(const SequenceSlice& slice, int ratio, bool overlap) {
  const std::int64_t first = first_entry(slice, ratio), end = end_entry(slice, ratio);
  const std::int64_t num_blocks = overlap ? 2 : 1;
  Pooling result;
  result.num_entries = static_cast<double>(end - first);
  if (end > first) {
    const std::int64_t missing = overlap && first == 0 ? 1 : 0;
    result.num_rows = static_cast<double>(ratio * (num_blocks * (end - first) - missing));
    // Blocks from the one before the first entry's; those behind the first entry's begin in this step.
    for (std::int64_t block = first - num_blocks + 1 + missing; block <= first; ++block) {
      // With overlap, the first entry's own block is pooled by the entry after it too.
      const std::int64_t readers = overlap && block == first && end > first + 1 ? 2 : 1;
      result.num_old_rows +=
          static_cast<double>(readers * std::clamp<std::int64_t>(slice.start - block * ratio, 0, ratio));
    }
  }
  const std::int64_t open_rows = (slice.start + slice.num_tokens) % ratio + (overlap ? ratio : 0);
  result.num_kept = static_cast<double>(std::min(slice.num_tokens, open_rows));
  return result;
}

/// After pooling: norm, rotation, and what the kind of entry asks for.
double finish_ops(const CompressorArgs& args, double head_dim) {
  const double rotated = kNormOps * head_dim + kRotatePairOps * static_cast<double>(args.frequencies.size());
  if (args.latent.base != nullptr) {
    return rotated + kQuantiseOps * args.latent.format.quantised_values();
  }
  return rotated + index_key_ops(args.index_key.format);
}

/// Norm, rotation and, of index keys, the Hadamard transform, backwards; roundings hand gradients on.
double finish_backward_ops(const CompressorArgs& args, double head_dim) {
  const double rotated =
      kNormBackwardOps * head_dim + kRotatePairOps * static_cast<double>(args.frequencies.size());
  return args.latent.base != nullptr ? rotated : rotated + hadamard_ops(args.index_key.format);
}

}  // namespace

OpCost compressor_cost(const CompressorArgs& args) {
  OpCost cost;
  if (args.kv.size() == 0) return cost;
  const auto width = static_cast<double>(args.kv.extent(1));
  const auto head_dim = static_cast<double>(args.norm_weight.size());
  const double row_bytes = static_cast<double>(
      args.latent.base != nullptr ? args.latent.format.row_bytes() : args.index_key.format.row_bytes());
  cost.scalar_ops = static_cast<double>(args.kv.size());  // the position's bias
  cost.read_bytes = bytes_of(args.kv) + bytes_of(args.gate);
  cost.read_weights(4.0 * static_cast<double>(args.ape.size()) +
                    norm_weight_bytes(static_cast<std::int64_t>(args.norm_weight.size())));
  for (const SequenceSlice& slice : args.batch.slices) {
    const Pooling pooling = pooling_of(
        slice, args.ratio, args.kv.extent(1) == 2 * static_cast<std::int64_t>(args.norm_weight.size()));
    cost.scalar_ops +=
        kPoolOps * head_dim * pooling.num_rows + pooling.num_entries * finish_ops(args, head_dim);
    cost.read_bytes += kFloatPairBytes * head_dim * pooling.num_old_rows;
    cost.write_bytes += kFloatPairBytes * width * pooling.num_kept + row_bytes * pooling.num_entries;
    if (args.overlap.base != nullptr) {
      cost.write_bytes += kFloatPairBytes * head_dim *
                          static_cast<double>(num_overlap_rows(slice.start + slice.num_tokens) -
                                              num_overlap_rows(slice.start));
    }
  }
  return cost;
}

OpCost compressor_backward_cost(const CompressorArgs& args) {
  OpCost cost;
  if (args.kv.size() == 0) return cost;
  const auto head_dim = static_cast<double>(args.norm_weight.size());
  cost.scalar_ops = static_cast<double>(args.kv.size());  // the position's bias
  cost.read_bytes = bytes_of(args.kv) + bytes_of(args.gate);
  cost.read_weights(4.0 * static_cast<double>(args.ape.size()) +
                    norm_weight_bytes(static_cast<std::int64_t>(args.norm_weight.size())));
  cost.write_bytes = bytes_of(args.kv) + bytes_of(args.gate);
  cost.accumulate_gradients(static_cast<double>(args.ape.size()) + head_dim);
  for (const SequenceSlice& slice : args.batch.slices) {
    const Pooling pooling = pooling_of(
        slice, args.ratio, args.kv.extent(1) == 2 * static_cast<std::int64_t>(args.norm_weight.size()));
    cost.scalar_ops += kPoolBackwardOps * head_dim * pooling.num_rows +
                       pooling.num_entries * finish_backward_ops(args, head_dim);
    cost.read_bytes +=
        2 * 4.0 * head_dim * pooling.num_entries;  // pooled entries and their gradients, float32
  }
  return cost;
}

namespace {

double num_pooled_rows(const PoolingValues<float>& v) {
  const std::int64_t entries = v.entries();
  return static_cast<double>(v.ratio * (v.overlaps ? std::max<std::int64_t>(0, 2 * entries - 1) : entries));
}

}  // namespace

OpCost pooling_cost(const PoolingValues<float>& v) {
  OpCost cost;
  const auto values = static_cast<double>(v.tokens * v.columns());
  cost.scalar_ops = values + kPoolOps * static_cast<double>(v.width) * num_pooled_rows(v);
  cost.read_bytes = kFloatPairBytes * values;
  if (v.ape != nullptr) cost.read_weights(4.0 * static_cast<double>(v.ratio * v.columns()));
  cost.write_bytes = 4.0 * static_cast<double>(v.entries() * v.width);
  return cost;
}

OpCost pooling_backward_cost(const PoolingValues<float>& v) {
  OpCost cost;
  const auto values = static_cast<double>(v.tokens * v.columns());
  cost.scalar_ops = values + kPoolBackwardOps * static_cast<double>(v.width) * num_pooled_rows(v);
  cost.read_bytes = kFloatPairBytes * (values + static_cast<double>(v.entries() * v.width));
  if (v.ape != nullptr) cost.read_weights(4.0 * static_cast<double>(v.ratio * v.columns()));
  cost.write_bytes = kFloatPairBytes * values;
  if (v.ape != nullptr) cost.accumulate_gradients(static_cast<double>(v.ratio * v.columns()));
  return cost;
}

}  // namespace baleen
