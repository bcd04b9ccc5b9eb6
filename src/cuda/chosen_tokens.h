/// Tokens of a batch that were chosen on the device.
#pragma once

#include <cstdint>

#include "tensor/ragged_batch.h"

struct CUstream_st;  // cudaStream_t without the toolkit's headers

namespace baleen {

/// Queues tokens[i] = chosen[i] for i in [0, count), or 0 where none was chosen (a negative id): nothing reads beyond a table
/// before the host has seen it. Both where the device reaches them.
void take_chosen_tokens(const TokenId* chosen, std::int64_t count, TokenId* tokens, CUstream_st* stream);

}  // namespace baleen
