/// Tokens of simulated prompts and replies, as far as the prefix cache tells them apart: which token stands
/// at a position follows from the stream's number and the position, so nothing is stored and nothing is kept
/// in step.
///
///     family 7     ┌──────── family_tokens ───────┐
///     session 41   [ family 7's tokens ...........][ 41's own tokens: question, reply, question, ...
///     session 42   [ family 7's tokens ...........][ 42's own ...
///
/// A later turn of a session is a longer prefix of the same stream: it holds the earlier prompt and reply. A
/// branch is a stream whose family is another session.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/ragged_batch.h"

namespace baleen {

struct TokenStream {
  std::uint64_t family = 0;        ///< whose tokens come first
  std::int64_t family_tokens = 0;  ///< so many
  std::uint64_t own = 0;           ///< whose come then; families and sessions share their numbers
};

/// Ids are below this: any vocabulary has them.
inline constexpr TokenId kTokenStreamVocab = 256;

/// The tokens from position `begin` on.
void fill_tokens(const TokenStream& stream, std::int64_t begin, std::span<TokenId> tokens);

}  // namespace baleen
