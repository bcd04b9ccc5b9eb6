#include "ops/markov/markov.h"
#include "ops/matmul/matmul.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost markov_cost(const MarkovArgs& args) {
  OpCost cost;
  if (args.logits.size() == 0) return cost;
  const auto rows = static_cast<double>(args.logits.extent(0)), rank = static_cast<double>(args.w1.extent(1));
  cost = matmul_cost(*args.w2, rows, ActivationRounding::kNone);
  cost.scalar_ops += static_cast<double>(args.logits.size());
  cost.read_bytes += rows * (sizeof(TokenId) + sizeof(Bf16Bits) * rank) + bytes_of(args.logits);
  cost.write_bytes += bytes_of(args.logits);
  if (args.confidence_weight.empty()) return cost;
  const auto num_inputs = static_cast<std::int64_t>(args.confidence_weight.size());
  cost.scalar_ops += 2 * rows * static_cast<double>(num_inputs);
  cost.read_bytes += bytes_of(args.hidden);
  cost.read_weights(static_cast<double>(sizeof(Bf16Bits)) * static_cast<double>(num_inputs));
  cost.write_bytes += rows * sizeof(float);
  return cost;
}

}  // namespace baleen
