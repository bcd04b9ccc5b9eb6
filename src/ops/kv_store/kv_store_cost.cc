#include "ops/kv_store/kv_store.h"
#include "ops/kv_store/window_write.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost kv_store_cost(const KvStoreArgs& args) {
  const LatentFormat& format = args.window.format;
  const auto num_rows = static_cast<double>(args.kv.extent(0));
  const double quantised = format.quantised_values();
  OpCost cost;
  cost.scalar_ops = num_rows * (kNormOps * static_cast<double>(args.kv.extent(1)) +
                                kRotatePairOps * (format.rope / 2.0) + kQuantiseOps * quantised);
  cost.read_bytes = bytes_of(args.kv);
  cost.read_weights(norm_weight_bytes(static_cast<std::int64_t>(args.weight.size())));
  for (const SequenceSlice& slice : args.batch.slices) {
    cost.write_bytes +=
        static_cast<double>(paged_window_write(slice.start, slice.num_tokens).rows * format.row_bytes());
  }
  return cost;
}

/// Of norm and rotation: storing has none, the rows' gradients arrive as attention's.
OpCost kv_store_backward_cost(const KvStoreArgs& args) {
  const auto num_rows = static_cast<double>(args.kv.extent(0));
  OpCost cost;
  cost.scalar_ops = num_rows * (kNormBackwardOps * static_cast<double>(args.kv.extent(1)) +
                                kRotatePairOps * (args.window.format.rope / 2.0));
  cost.read_bytes = 2 * bytes_of(args.kv);
  cost.read_weights(norm_weight_bytes(static_cast<std::int64_t>(args.weight.size())));
  cost.write_bytes = bytes_of(args.kv);
  cost.accumulate_gradients(static_cast<double>(args.weight.size()));
  return cost;
}

}  // namespace baleen
