/// Token embedding, repeated on the stream axis: out[t, s, :] = table[tokens[t], :].
/// (source: tensor "embed.weight")
#pragma once

#include <span>

#include "numeric/bf16.h"
#include "ops/operation/operation.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct EmbedArgs {
  std::span<const TokenId> tokens;  ///< [T], each in [0, V): checked by the engine
  View<const Bf16Bits, 2> table;    ///< [V, d]
  Activations<3> out;               ///< [T, streams, d]
};

void embed(const EmbedArgs& args, CpuContext& context);
void embed_ref(const EmbedArgs& args);
void embed_cpu(const EmbedArgs& args, CpuContext& context);
[[nodiscard]] OpCost embed_cost(const EmbedArgs& args);

}  // namespace baleen
