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

}  // namespace baleen
