#include <algorithm>

#include "ops/indexer/indexer.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/expected_distinct.h"
#include "ops/operation/index_key_ops.h"
#include "ops/operation/position_sums.h"

namespace baleen {
namespace {

MathFormat format_of(const IndexerArgs& args) {
  return args.precision == Precision::kReleased ? MathFormat::kFp4
         : args.precision == Precision::kBf16   ? MathFormat::kBF16
                                                : MathFormat::kF32;
}

/// Pairs of query and entry that are scored, those that are selected; pairs of query and block; keys, each
/// read once for all queries of its sequence.
struct Counts {
  double scores = 0, selected = 0, blocks = 0, keys = 0;
};

Counts counts_of(const IndexerArgs& args) {
  const IndexBlocks& blocks = args.blocks;
  const std::int64_t top_k = args.selected.extent(1);
  Counts counts;
  for (const SequenceSlice& slice : args.batch.slices) {
    const std::int64_t end = slice.start + slice.num_tokens;
    /// Of at most so many entries, or blocks, a query.
    const auto at_most = [&](std::int64_t most, std::int64_t ratio) {
      return static_cast<double>(sum_of_selected(end, ratio, most) -
                                 sum_of_selected(slice.start, ratio, most));
    };
    const std::int64_t all = std::max<std::int64_t>(1, end / args.ratio);
    const std::int64_t scored = blocks.are_given() ? blocks.count() * blocks.size : all;
    counts.scores += at_most(scored, args.ratio);
    counts.selected += at_most(top_k, args.ratio);
    if (blocks.size > 0) {
      // Of n entries there are (n + size - 1) div size blocks: those of so many positions more.
      const std::int64_t of_block = args.ratio * blocks.size, more = of_block - args.ratio;
      counts.blocks += static_cast<double>(sum_of_selected(end + more, of_block, blocks.count()) -
                                           sum_of_selected(slice.start + more, of_block, blocks.count()));
    }
    // Where each query has blocks of its own, as if it knew nothing of its neighbours' (expected_distinct.h).
    const auto visible = static_cast<double>(end / args.ratio);
    counts.keys += blocks.are_given() ? expected_distinct(visible, static_cast<double>(scored),
                                                          static_cast<double>(slice.num_tokens))
                                      : visible;
  }
  return counts;
}

}  // namespace

OpCost indexer_cost(const IndexerArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto dim = static_cast<double>(args.q.extent(2));
  const Counts counts = counts_of(args);
  OpCost cost;
  cost.add_flops(format_of(args), 2 * num_heads * dim * counts.scores);
  const IndexKeyFormat query{static_cast<int>(args.q.extent(2)), args.precision};
  const double prepare_ops = kRotatePairOps * static_cast<double>(args.cosine.extent(1)) +
                             index_key_rounding_ops(query) + (args.hadamard ? hadamard_ops(query) : 0);
  // A head's score: cut off at zero, weighted, added; the sum is compared once.
  cost.scalar_ops =
      static_cast<double>(args.q.extent(0)) * num_heads * prepare_ops + (3 * num_heads + 1) * counts.scores;
  if (args.blocks.are_chosen()) cost.scalar_ops += counts.scores;  // compared once more
  constexpr double kIdBytes = sizeof(std::int32_t);
  cost.read_bytes = bytes_of(args.q) + bytes_of(args.head_weights);
  cost.read_cache(counts.keys * static_cast<double>(args.keys.format.row_bytes()));
  cost.write_bytes = kIdBytes * counts.selected;
  (args.blocks.are_given() ? cost.read_bytes : cost.write_bytes) += kIdBytes * counts.blocks;
  return cost;
}

OpCost indexer_backward_cost(const IndexerArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto dim = static_cast<double>(args.q.extent(2));
  const Counts counts = counts_of(args);
  OpCost cost;
  // Products again, gradients of queries and of keys: of selected entries, for the loss has no others.
  cost.add_flops(format_of(args), 3 * 2 * num_heads * dim * counts.selected);
  // The loss of an entry: softmax of the score (scale, maximum, difference, exponential, sum, division), the
  // attention's share normalised (2), the difference, two scales. A head's product of it: cut off at zero,
  // weighted, added to the weight's gradient (2), cut off again.
  constexpr double kLossOps = 11, kHeadOps = 5;
  const double back_ops =
      kRotatePairOps * static_cast<double>(args.cosine.extent(1)) +
      (args.hadamard ? hadamard_ops({static_cast<int>(args.q.extent(2)), args.precision}) : 0);
  cost.scalar_ops = static_cast<double>(args.q.extent(0)) * num_heads * back_ops +
                    (kLossOps + kHeadOps * num_heads) * counts.selected;
  // Ids of selected entries, their scores and attention's shares.
  cost.read_bytes = bytes_of(args.q) + bytes_of(args.head_weights) + 3 * 4.0 * counts.selected;
  cost.read_cache(counts.keys * static_cast<double>(args.keys.format.row_bytes()));
  cost.write_bytes = bytes_of(args.q) + bytes_of(args.head_weights) + 4.0 * dim * counts.keys;
  return cost;
}

}  // namespace baleen
