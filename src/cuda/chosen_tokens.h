/// Tokens of a batch that were chosen on the device.
#pragma once

#include <cstdint>

#include "cuda/launch_stream.h"
#include "tensor/chosen_token.h"

namespace baleen {

/// For i in [0, count): queues tokens[i] = chosen[chosen_index(tokens[i])] where tokens[i] is a chosen one,
/// or 0 where none was chosen (a negative id), so that no table is read out of bounds before the host has
/// seen it. Both where the device reaches them.
void take_chosen_tokens(const TokenId* chosen, std::int64_t count, TokenId* tokens,
                        const LaunchStream& stream);

}  // namespace baleen
