#include "ops/kv_store/kv_store.h"

namespace baleen {

OpCost kv_store_cost(const KvStoreArgs& args) {
  const auto num_rows = static_cast<double>(args.kv.extent(0));
  const auto width = static_cast<double>(args.kv.extent(1));
  const auto num_pairs = static_cast<double>(args.cosine.extent(1));
  OpCost cost;
  // Squares and sum, two scalings; six for a pair; absolute maximum, division and rounding.
  cost.add_flops(MathFormat::kF32, num_rows * (4 * width + 6 * num_pairs + 3 * width));
  cost.read_bytes = 4 * (num_rows * (width + 2 * num_pairs) + width);
  cost.write_bytes = num_rows * static_cast<double>(args.window.format.row_bytes());
  return cost;
}

}  // namespace baleen
