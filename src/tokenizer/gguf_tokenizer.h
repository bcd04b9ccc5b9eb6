/// The tokenizer that lies in a GGUF file's keys: tokens in the order of their ids, their kinds, merges, and
/// the name of a pre-tokenizer whose patterns are known here.
#pragma once

#include <optional>
#include <string_view>

#include "checkpoint/gguf/gguf_file.h"
#include "tokenizer/tokenizer_json.h"

namespace baleen {

inline constexpr std::string_view kGgufTokensKey = "tokenizer.ggml.tokens";
inline constexpr std::string_view kGgufBosKey = "tokenizer.ggml.bos_token_id";
inline constexpr std::string_view kGgufEosKey = "tokenizer.ggml.eos_token_id";

/// Control and user-defined tokens are the added ones; what a file leaves out of them (whether they are
/// special, which characters were changed) is the release's. Throws `Error` when a key is missing or wrong,
/// or the pre-tokenizer is not DeepSeek's.
[[nodiscard]] TokenizerJson gguf_tokenizer(const GgufKeys& keys);

/// The token that a key names; nothing where there is no such key.
[[nodiscard]] std::optional<TokenId> gguf_token(const GgufKeys& keys, std::string_view key);

}  // namespace baleen
