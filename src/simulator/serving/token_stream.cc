#include "simulator/serving/token_stream.h"

#include <algorithm>
#include <array>

namespace baleen {
namespace {

/// As many tokens come from one hash: a byte each.
constexpr std::int64_t kTokensPerHash = 8;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

using Group = std::array<TokenId, kTokensPerHash>;

Group group_of(std::uint64_t key, std::int64_t number) {
  const std::uint64_t hash = mixed(key + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15);
  Group group;
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i] = static_cast<TokenId>(hash >> (8 * i)) & (kTokenStreamVocab - 1);
  }
  return group;
}

void fill_from(std::uint64_t stream, std::int64_t begin, std::span<TokenId> tokens) {
  const std::uint64_t key = mixed(stream + 0x9E3779B97F4A7C15);
  for (std::int64_t position = begin; !tokens.empty();) {
    const Group group = group_of(key, position / kTokensPerHash);
    const auto first = static_cast<std::size_t>(position % kTokensPerHash);
    const std::size_t count = std::min(group.size() - first, tokens.size());
    if (count == group.size()) {
      std::ranges::copy(group, tokens.begin());  // of a known size: a few instructions
    } else {
      std::ranges::copy(std::span(group).subspan(first, count), tokens.begin());
    }
    tokens = tokens.subspan(count);
    position += static_cast<std::int64_t>(count);
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
