/// What a DeepSeek-V4 tokenizer is besides its vocabulary: the patterns that cut text, and the special
/// tokens. (source: tokenizer.json of the released checkpoints)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace baleen {

/// kChat: the tokens that the chat format writes, and padding: 15. kAll: every token of V4's releases that
/// has a name of its own, without their 1,217 placeholders: 66. kV41: as kChat, with the two names that V4.1
/// gave to placeholders, the token of instructions and that of images: 17.
enum class SpecialTokenSet { kChat, kAll, kV41 };

/// Begin and end of a text and padding have ids 0, 1 and 2; the others follow the vocabulary, in the order of
/// the release.
inline constexpr std::size_t kNumLeadingTokens = 3;

/// Their texts and flags, without ids. The leading ones come first.
[[nodiscard]] std::vector<AddedToken> v4_special_tokens(SpecialTokenSet set);

/// The patterns of the release's pre-tokenizer, in order.
[[nodiscard]] std::vector<SplitRule> v4_split_rules();

/// A complete tokenizer.json of these tokens and merges, with the release's other parts. `Tokenizer::parse`
/// and the `tokenizers` library read it. Ends with a newline.
[[nodiscard]] std::string v4_tokenizer_json(const TokenizerJson& tokenizer);

/// The tokenizer_config.json beside it, which names the tokens that begin and end a text.
[[nodiscard]] std::string v4_tokenizer_config_json();

}  // namespace baleen
