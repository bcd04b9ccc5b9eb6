#include "ops/indexer/indexer.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/index_key_ops.h"
#include "ops/operation/position_sums.h"

namespace baleen {
namespace {

constexpr std::int64_t kRatio = 4;  ///< tokens of an indexed entry

MathFormat format_of(const IndexerArgs& args) {
  return args.precision == Precision::kReleased ? MathFormat::kFp4
         : args.precision == Precision::kBf16   ? MathFormat::kBF16
                                                : MathFormat::kF32;
}

/// Pairs of query and entry that are scored, those that are selected; keys, each read once for all queries of
/// its sequence.
struct Counts {
  double scores = 0, selected = 0, keys = 0;
};

Counts counts_of(const IndexerArgs& args) {
  std::int64_t num_scores = 0, num_selected = 0, num_keys = 0;
  for (const SequenceSlice& slice : args.batch.slices) {
    const std::int64_t end = slice.start + slice.num_tokens;
    const std::int64_t top_k = args.selected.extent(1);
    num_scores += sum_of_visible(end, kRatio) - sum_of_visible(slice.start, kRatio);
    num_selected += sum_of_selected(end, kRatio, top_k) - sum_of_selected(slice.start, kRatio, top_k);
    num_keys += end / kRatio;
  }
  return {static_cast<double>(num_scores), static_cast<double>(num_selected), static_cast<double>(num_keys)};
}

}  // namespace

OpCost indexer_cost(const IndexerArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto dim = static_cast<double>(args.q.extent(2));
  const Counts counts = counts_of(args);
  OpCost cost;
  cost.add_flops(format_of(args), 2 * num_heads * dim * counts.scores);
  const double prepare_ops = kRotatePairOps * static_cast<double>(args.cosine.extent(1)) +
                             index_key_ops({static_cast<int>(args.q.extent(2)), args.precision});
  // A head's score: cut off at zero, weighted, added; the sum is compared once.
  cost.scalar_ops =
      static_cast<double>(args.q.extent(0)) * num_heads * prepare_ops + (3 * num_heads + 1) * counts.scores;
  cost.read_bytes = bytes_of(args.q) + bytes_of(args.head_weights);
  cost.read_cache(counts.keys * static_cast<double>(args.keys.format.row_bytes()));
  cost.write_bytes = static_cast<double>(sizeof(std::int32_t)) * counts.selected;
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
  const double back_ops = kRotatePairOps * static_cast<double>(args.cosine.extent(1)) +
                          hadamard_ops({static_cast<int>(args.q.extent(2)), args.precision});
  cost.scalar_ops = static_cast<double>(args.q.extent(0)) * num_heads * back_ops +
                    (kLossOps + kHeadOps * num_heads) * counts.selected;
  // Ids of selected entries, their scores and attention's shares.
  cost.read_bytes = bytes_of(args.q) + bytes_of(args.head_weights) + 3 * 4.0 * counts.selected;
  cost.read_cache(counts.keys * static_cast<double>(args.keys.format.row_bytes()));
  cost.write_bytes = bytes_of(args.q) + bytes_of(args.head_weights) + 4.0 * dim * counts.keys;
  return cost;
}

}  // namespace baleen
