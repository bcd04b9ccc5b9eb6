#include "grammar/token_mask.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "grammar/compiled_grammar.h"
#include "grammar/token_split.h"

namespace baleen {
namespace {

/// Which bytes can be read next, as four words of 64.
struct ByteSet {
  std::uint64_t words[4] = {};
  void add(std::uint8_t byte) { words[byte / 64] |= std::uint64_t{1} << (byte % 64); }
  [[nodiscard]] bool has(std::uint8_t byte) const { return (words[byte / 64] >> (byte % 64) & 1) != 0; }
};

/// Tails are short and mostly fail at their first byte, so they are stepped one by one, sharing what they
/// begin with.
void add_tails(const CompiledGrammar& grammar, const std::vector<TokenSplit::Tail>& tails,
               const Configuration& at, std::int32_t caller, TokenMask& mask) {
  if (tails.empty() || caller == kBottom) return;
  Stepper stepper(grammar);
  std::vector<Configuration> after(1);  // after so many bytes of a tail
  after[0].frames = at.frames;
  stepper.begin_at(at.frames[caller].node, at.frames[caller].parent, after[0]);
  ByteSet first;
  for (const Configuration::Reading& reading : after[0].readings) {
    for (const ByteEdge& edge : grammar.graph().edges_of(grammar.node(reading.node))) {
      for (int byte = edge.first; byte <= edge.last; ++byte) first.add(static_cast<std::uint8_t>(byte));
    }
  }
  std::size_t read = 0;
  for (std::size_t i = 0; i < tails.size(); ++i) {
    const TokenSplit::Tail& tail = tails[i];
    const std::size_t shared = i == 0 ? 0 : tail.shared;
    if (shared > read) continue;
    read = shared;
    if (read == 0 && !first.has(static_cast<std::uint8_t>(tail.bytes[0]))) continue;
    while (read < tail.bytes.size()) {
      if (after.size() == read + 1) after.emplace_back();
      stepper.step(after[read], static_cast<std::uint8_t>(tail.bytes[read]), after[read + 1]);
      if (after[read + 1].is_dead()) break;
      ++read;
    }
    if (read == tail.bytes.size()) allow(mask, tail.token);
  }
}

}  // namespace

void add_allowed_tokens(const CompiledGrammar& grammar, const MaskVocabulary& vocabulary,
                        const Configuration& at, TokenMask& mask) {
  if (at.may_end) allow(mask, vocabulary.end_token());
  for (const Configuration::Reading& reading : at.readings) {
    const std::shared_ptr<const TokenSplit> split = split_of(grammar, vocabulary, at, reading);
    for (std::size_t i = 0; i < split->allowed.size(); ++i) mask[i] |= split->allowed[i];
    for (const TokenId token : split->few) allow(mask, token);
    add_tails(grammar, split->tails, at, return_frame(at, reading), mask);
  }
}

std::string forced_continuation(const CompiledGrammar& grammar, const Configuration& at) {
  std::string forced;
  Stepper stepper(grammar);
  Configuration current = at, next;
  while (!current.may_end && forced.size() < kMaxForcedBytes) {
    std::optional<std::uint8_t> only;
    for (const Configuration::Reading& reading : current.readings) {
      for (const ByteEdge& edge : grammar.graph().edges_of(grammar.node(reading.node))) {
        if (!stepper.permits(current, edge.target, reading.top)) continue;
        if (edge.first != edge.last || (only && *only != edge.first)) return forced;
        only = edge.first;
      }
    }
    stepper.step(current, *only, next);
    tidy(next);
    forced += static_cast<char>(*only);
    std::swap(current, next);
  }
  return forced;
}

}  // namespace baleen
