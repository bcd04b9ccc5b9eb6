#include <algorithm>

#include "ops/operation/argument_bytes.h"
#include "ops/operation/expected_distinct.h"
#include "ops/operation/position_sums.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace baleen {
namespace {

/// Entries that the queries of a sequence see, each for itself.
double num_entries(const SparseAttentionArgs& args, const SequenceSlice& slice) {
  const std::int64_t start = slice.start, end = start + slice.num_tokens;
  if (slice.sees_ahead)
    return static_cast<double>(slice.num_tokens * slice.window_at(start, args.window_tokens).size());
  // A position sees the window from `window_begin` on, as if the sequence began there.
  std::int64_t sum = sum_of_window(end - slice.window_begin, args.window_tokens) -
                     sum_of_window(start - slice.window_begin, args.window_tokens);
  if (args.selects()) {
    const std::int64_t top_k = args.selected.extent(1);
    sum += sum_of_selected(end, args.ratio, top_k) - sum_of_selected(start, args.ratio, top_k);
  } else if (args.ratio != 0) {
    sum += sum_of_visible(end, args.ratio) - sum_of_visible(start, args.ratio);
  }
  return static_cast<double>(sum);
}

double num_window_rows(const SparseAttentionArgs& args, const SequenceSlice& slice) {
  const std::int64_t end = slice.start + slice.num_tokens;
  return static_cast<double>(slice.window_at(end - 1, args.window_tokens).end -
                             slice.window_at(slice.start, args.window_tokens).begin);
}

/// Different entries. Where each query selects, as if it knew nothing of its neighbours: neighbours choose
/// more alike, so these are too many rather than too few.
double num_distinct_entries(const SparseAttentionArgs& args, const SequenceSlice& slice) {
  if (args.ratio == 0) return 0;
  const std::int64_t num_complete = (slice.start + slice.num_tokens) / args.ratio;
  const auto visible = static_cast<double>(num_complete);
  if (!args.selects()) return visible;
  return expected_distinct(visible, static_cast<double>(args.selected.extent(1)),
                           static_cast<double>(slice.num_tokens));
}

/// What all queries of a batch see; forward and backward read the same.
struct SeenRows {
  double entries = 0;  ///< pairs of a query and a row that it sees
  double rows = 0;     ///< different rows of each sequence
  double bytes = 0;    ///< those rows have
};

SeenRows seen_rows(const SparseAttentionArgs& args) {
  SeenRows seen;
  for (const SequenceSlice& slice : args.batch.slices) {
    const double window = num_window_rows(args, slice), entries = num_distinct_entries(args, slice);
    seen.entries += num_entries(args, slice);
    seen.rows += window + entries;
    seen.bytes += window * static_cast<double>(args.window.format.row_bytes());
    if (entries > 0) seen.bytes += entries * static_cast<double>(args.compressed.format.row_bytes());
  }
  return seen;
}

}  // namespace

OpCost sparse_attention_cost(const SparseAttentionArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto key_dim = static_cast<double>(args.q.extent(2)),
             value_dim = static_cast<double>(args.out.extent(2));
  const SeenRows seen = seen_rows(args);
  OpCost cost;
  if (args.q.size() == 0) return cost;
  cost.add_flops(MathFormat::kBF16,
                 2 * (key_dim + value_dim) * num_heads * seen.entries);  // with keys, and with values
  // A score: scale, maximum, difference, exponential, sum, rounding. A result: its division; the sink once.
  constexpr double kScoreOps = 6;
  cost.scalar_ops =
      num_heads * (kScoreOps * seen.entries + (value_dim + 1) * static_cast<double>(args.q.extent(0)));
  // The list of a query's rows, as kernels of the field take it for window and entries alike.
  cost.read_bytes = bytes_of(args.q) + static_cast<double>(sizeof(std::int32_t)) * seen.entries;
  cost.read_weights(4.0 * static_cast<double>(args.sink.size()));
  cost.read_cache(seen.bytes);
  cost.write_bytes = bytes_of(args.out);
  return cost;
}

OpCost sparse_attention_backward_cost(const SparseAttentionArgs& args) {
  const auto num_heads = static_cast<double>(args.q.extent(1));
  const auto num_queries = static_cast<double>(args.q.extent(0)) * num_heads;
  const auto key_dim = static_cast<double>(args.q.extent(2)),
             value_dim = static_cast<double>(args.out.extent(2));
  const SeenRows seen = seen_rows(args);
  OpCost cost;
  if (args.q.size() == 0) return cost;
  // Scores again, and the gradients of queries and of keys; the gradients of probabilities and of values.
  cost.add_flops(MathFormat::kBF16, 2 * (3 * key_dim + 2 * value_dim) * num_heads * seen.entries);
  // A score: scale, difference, exponential; less delta, times the probability, rounding. A query and head:
  // delta, and the sink's share of it.
  constexpr double kScoreOps = 6;
  cost.scalar_ops = num_heads * kScoreOps * seen.entries + num_queries * (2 * value_dim + 4);
  // The results and their gradients, a logarithm of the sum for each, the lists.
  cost.read_bytes = bytes_of(args.q) + 2 * bytes_of(args.out) + 4.0 * num_queries +
                    static_cast<double>(sizeof(std::int32_t)) * seen.entries;
  cost.read_weights(4.0 * static_cast<double>(args.sink.size()));
  cost.read_cache(seen.bytes);
  cost.write_bytes = bytes_of(args.q) + 4.0 * key_dim * seen.rows;
  cost.accumulate_gradients(static_cast<double>(args.sink.size()));
  return cost;
}

OpCost sparse_attention_rope_cost(const SparseAttentionArgs& args, const RopeArgs& rotation) {
  OpCost cost = sparse_attention_cost(args);
  cost.scalar_ops += rope_cost(rotation).scalar_ops;
  return cost;
}

}  // namespace baleen
