#include "ops/indexer/indexer.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/index_key_ops.h"
#include "ops/operation/position_sums.h"

namespace baleen {
namespace {

constexpr std::int64_t kRatio = 4;  ///< tokens of an indexed entry

}  // namespace

OpCost indexer_cost(const IndexerArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto dim = static_cast<double>(args.q.extent(2));
  const MathFormat format = args.precision == Precision::kReleased ? MathFormat::kFp4
                            : args.precision == Precision::kBf16   ? MathFormat::kBF16
                                                                   : MathFormat::kF32;
  std::int64_t num_scores = 0, num_selected = 0, num_keys = 0;
  for (const SequenceSlice& slice : args.batch.slices) {
    const std::int64_t end = slice.start + slice.num_tokens;
    const std::int64_t top_k = args.selected.extent(1);
    num_scores += sum_of_visible(end, kRatio) - sum_of_visible(slice.start, kRatio);
    num_selected += sum_of_selected(end, kRatio, top_k) - sum_of_selected(slice.start, kRatio, top_k);
    num_keys += end / kRatio;  // read once for all queries of the sequence
  }
  OpCost cost;
  cost.add_flops(format, 2 * num_heads * dim * static_cast<double>(num_scores));
  const double prepare_ops = kRotatePairOps * static_cast<double>(args.cosine.extent(1)) +
                             index_key_ops({static_cast<int>(args.q.extent(2)), args.precision});
  // A head's score: cut off at zero, weighted, added; the sum is compared once.
  cost.scalar_ops = static_cast<double>(args.q.extent(0)) * num_heads * prepare_ops +
                    (3 * num_heads + 1) * static_cast<double>(num_scores);
  cost.read_bytes = bytes_of(args.q) + bytes_of(args.head_weights);
  cost.read_cache(static_cast<double>(num_keys * args.keys.format.row_bytes()));
  cost.write_bytes = static_cast<double>(sizeof(std::int32_t)) * static_cast<double>(num_selected);
  return cost;
}

}  // namespace baleen
