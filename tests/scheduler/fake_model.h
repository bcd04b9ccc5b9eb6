/// A model whose logits are a hash of every token before: whoever loses, repeats or reorders one gets other
/// replies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/request.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// Bytes are tokens 0 to 255, then come the end of a reply and of its reasoning; the last id has no token, as
/// in real checkpoints.
inline constexpr TokenId kEndToken = 256, kEndThinkToken = 257;
inline constexpr std::int32_t kFakeVocab = 259;
[[nodiscard]] const Tokenizer& fake_tokenizer();

/// Hash of a sequence of tokens.
using History = std::uint64_t;
inline constexpr History kNoHistory = 0x6A09E667F3BCC908;
[[nodiscard]] History after(History history, TokenId token);
[[nodiscard]] History after(History history, std::span<const TokenId> tokens);

/// [kFakeVocab] logits of the token after `history`. Eight letters are likelier than the rest.
void fake_logits(History history, std::span<float> logits);
/// Uniform in [0, 1), a function of both.
[[nodiscard]] double fake_chance(History history, std::uint64_t what);

/// Thinking that may have so many tokens; it ends itself now and then.
[[nodiscard]] inline ThinkingLimits thinking_within(std::optional<std::int64_t> budget) {
  return {.end_token = kEndThinkToken, .budget = budget};
}

/// A JSON object, perhaps after reasoning.
[[nodiscard]] ReplyRules json_rules(bool starts_in_reasoning);

/// What a reply must be, by a loop that knows no scheduler: one token after the other.
struct ExpectedReply {
  std::vector<TokenId> tokens;  ///< without the stop token
  std::string text;
  ReplyEnd end = ReplyEnd::kLength;
  ThinkingEnd thinking_end = ThinkingEnd::kNothing;
  std::string stop_string;
};
[[nodiscard]] ExpectedReply expected_reply(const Request& request, std::int64_t context_tokens);

}  // namespace baleen
