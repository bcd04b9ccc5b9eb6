/// Tokens of a batch that are chosen on the device before the host knows them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Stands in a batch for the token at `index` of the choices that come with it: negative, so no id of a
/// vocabulary.
[[nodiscard]] constexpr TokenId chosen_token(std::int64_t index) { return static_cast<TokenId>(-1 - index); }
[[nodiscard]] constexpr bool is_chosen_token(TokenId token) { return token < 0; }
/// Of a token that is one.
[[nodiscard]] constexpr std::size_t chosen_index(TokenId token) {
  return static_cast<std::size_t>(-1 - token);
}

}  // namespace baleen
