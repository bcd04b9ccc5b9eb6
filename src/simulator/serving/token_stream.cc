#include "simulator/serving/token_stream.h"

#include <algorithm>

namespace baleen {
namespace {

/// As many tokens come from one hash: a byte each.
constexpr std::int64_t kTokensPerHash = 8;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

void fill_from(std::uint64_t stream, std::int64_t begin, std::span<TokenId> tokens) {
  const std::uint64_t key = mixed(stream + 0x9E3779B97F4A7C15);
  const auto end = begin + std::ssize(tokens);
  for (std::int64_t position = begin; position < end;) {
    const std::int64_t group = position / kTokensPerHash;
    const std::uint64_t hash = mixed(key + static_cast<std::uint64_t>(group) * 0x9E3779B97F4A7C15);
    const std::int64_t group_end = std::min(end, (group + 1) * kTokensPerHash);
    for (; position < group_end; ++position) {
      const auto byte = static_cast<unsigned>(position % kTokensPerHash);
      tokens[static_cast<std::size_t>(position - begin)] =
          static_cast<TokenId>(hash >> (8 * byte)) & (kTokenStreamVocab - 1);
    }
  }
}

}  // namespace

void fill_tokens(const TokenStream& stream, std::int64_t begin, std::span<TokenId> tokens) {
  const std::int64_t of_family =
      std::clamp<std::int64_t>(stream.family_tokens - begin, 0, std::ssize(tokens));
  fill_from(stream.family, begin, tokens.first(static_cast<std::size_t>(of_family)));
  fill_from(stream.own, begin + of_family, tokens.subspan(static_cast<std::size_t>(of_family)));
}

}  // namespace baleen
