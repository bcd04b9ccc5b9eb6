#include "ops/embed/embed.h"

namespace baleen {

OpCost embed_cost(const EmbedArgs& args) {
  const auto rows = static_cast<double>(args.tokens.size());
  OpCost cost;
  cost.read_bytes = rows * (sizeof(TokenId) + sizeof(Bf16Bits) * static_cast<double>(args.table.extent(1)));
  cost.write_bytes = 4.0 * static_cast<double>(args.out.size());
  return cost;
}

}  // namespace baleen
