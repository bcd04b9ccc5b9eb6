/// Token embedding, repeated on the stream axis: out[t, s, :] = table[tokens[t], :].
/// (source: tensor "embed.weight")
#pragma once

#include <span>

#include "numeric/bf16.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct EmbedArgs {
  std::span<const TokenId> tokens;  ///< [T], each in [0, V): checked by the engine
  std::int64_t first_row = 0;       ///< where the rows begin in the step's batch
  View<const Bf16Bits, 2> table;    ///< [V, d]
  Activations<3> out;               ///< [T, streams, d]
};

void embed_ref(const EmbedArgs& args);
void embed_cpu(const EmbedArgs& args, CpuContext& context);
[[nodiscard]] OpCost embed_cost(const EmbedArgs& args);
[[nodiscard]] OpCost embed_backward_cost(const EmbedArgs& args);

namespace ops {

struct Embed {
  using Args = EmbedArgs;
  static constexpr std::string_view kName = "embed";
  [[nodiscard]] static OpCost cost(const EmbedArgs& args) { return embed_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const EmbedArgs& args) { return embed_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const EmbedArgs& args);
  static void accesses(const EmbedArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<Embed>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
