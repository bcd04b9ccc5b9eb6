#include "ops/compressor/step_entries.h"
#include "ops/entry_store/entry_store.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/index_key_ops.h"

namespace baleen {

OpCost entry_store_cost(const EntryStoreArgs& args) {
  OpCost cost;
  if (args.latent.size() == 0) return cost;
  double num_entries = 0;
  for (const SequenceSlice& slice : args.batch.slices)
    num_entries += static_cast<double>(end_entry(slice, args.ratio) - first_entry(slice, args.ratio));
  const auto num_rows = static_cast<double>(args.latent.extent(0));
  const LatentFormat& format = args.entries.format;
  const auto key_dim = static_cast<double>(args.key.extent(1));
  cost.scalar_ops = num_entries * (kQuantiseOps * format.quantised_values() + kNormOps * key_dim +
                                   index_key_rounding_ops(args.index_keys.format) +
                                   2 * kRotatePairOps * static_cast<double>(args.frequencies.size()));
  // Of the rows that complete an entry alone.
  cost.read_bytes = num_entries / num_rows * (bytes_of(args.latent) + bytes_of(args.key));
  cost.read_weights(norm_weight_bytes(args.key.extent(1)));
  cost.write_bytes =
      num_entries * static_cast<double>(format.row_bytes() + args.index_keys.format.row_bytes());
  return cost;
}

}  // namespace baleen
