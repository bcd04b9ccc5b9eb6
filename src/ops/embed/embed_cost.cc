#include "ops/embed/embed.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost embed_cost(const EmbedArgs& args) {
  const auto rows = static_cast<double>(args.tokens.size());
  OpCost cost;
  cost.read_bytes = rows * (sizeof(TokenId) + sizeof(Bf16Bits) * static_cast<double>(args.table.extent(1)));
  cost.write_bytes = bytes_of(args.out);
  return cost;
}

OpCost embed_backward_cost(const EmbedArgs& args) {
  const auto rows = static_cast<double>(args.tokens.size());
  OpCost cost;
  cost.scalar_ops = static_cast<double>(args.out.size());  // every stream's gradient is added to the row
  cost.read_bytes = rows * sizeof(TokenId) + bytes_of(args.out);
  cost.accumulate_gradients(rows * static_cast<double>(args.table.extent(1)));
  return cost;
}

}  // namespace baleen
