#include "tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quoted_text.h"
#include "tokenizer/v4_format.h"

namespace baleen {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model", kPreKey = "tokenizer.ggml.pre",
                           kKindsKey = "tokenizer.ggml.token_type", kMergesKey = "tokenizer.ggml.merges";
/// Names of the release's patterns: what converters find by a text that they cut.
constexpr std::array<std::string_view, 2> kPreTokenizers{"joyai-llm", "deepseek-v3"};
constexpr std::int64_t kControl = 3, kUserDefined = 4, kUnused = 5;

void check_kind(const GgufKeys& keys) {
  if (const auto model = keys.text(kModelKey); model != "gpt2") {
    fail("{}: key {} is {}, expected \"gpt2\" (byte-level BPE)", keys.label(), quoted_text(kModelKey),
         model ? quoted_text(*model) : "missing");
  }
  const auto pre = keys.text(kPreKey);
  if (!pre || std::ranges::find(kPreTokenizers, *pre) == kPreTokenizers.end()) {
    fail("{}: key {} is {}, expected \"joyai-llm\", whose patterns are DeepSeek-V4's", keys.label(),
         quoted_text(kPreKey), pre ? quoted_text(*pre) : "missing");
  }
}

/// Of a key that has to be there.
template <class T>
T required(std::optional<T> value, const GgufKeys& keys, std::string_view key) {
  if (!value) fail("{}: key {} is missing; is this a whole model?", keys.label(), quoted_text(key));
  return std::move(*value);
}

/// The release's special tokens by their texts, and by what converters make of a text with "▁" in it.
std::map<std::string, AddedToken, std::less<>> known_tokens() {
  std::map<std::string, AddedToken, std::less<>> known;
  for (const AddedToken& token : v4_special_tokens(SpecialTokenSet::kAll)) {
    constexpr std::string_view kLowLine = "▁";
    std::string changed = token.text;
    for (std::size_t at = 0; (at = changed.find(kLowLine, at)) != std::string::npos;)
      changed.replace(at, kLowLine.size(), " ");
    known.emplace(changed, token);
    known.insert_or_assign(token.text, token);
  }
  return known;
}

}  // namespace

TokenizerJson gguf_tokenizer(const GgufKeys& keys) {
  check_kind(keys);
  const auto tokens = required(keys.texts(kGgufTokensKey), keys, kGgufTokensKey);
  const auto kinds = required(keys.wholes(kKindsKey), keys, kKindsKey);
  const auto merges = required(keys.texts(kMergesKey), keys, kMergesKey);
  if (kinds.size() != tokens.size() || std::ssize(tokens) > std::int64_t{kMaxTokenId} + 1) {
    fail("{}: {} tokens and {} kinds of tokens; is the file damaged?", keys.label(), tokens.size(),
         kinds.size());
  }
  TokenizerJson tokenizer{.splits = v4_split_rules()};
  const auto known = known_tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (kinds[i] == kUnused) continue;
    if (kinds[i] != kControl && kinds[i] != kUserDefined) {
      tokenizer.vocabulary.push_back({std::string(tokens[i]), id});
      continue;
    }
    if (tokens[i].empty()) fail("{}: control token {} has no text; is the file damaged?", keys.label(), i);
    const auto found = known.find(tokens[i]);
    AddedToken token = found != known.end() ? found->second : AddedToken{.text = std::string(tokens[i])};
    token.id = id;
    tokenizer.added_tokens.push_back(std::move(token));
  }
  for (const std::string_view merge : merges) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      fail("{}: merge {}: expected two tokens with a space between; is the file damaged?", keys.label(),
           quoted_text(merge));
    tokenizer.merges.push_back(
        {std::string(merge.substr(0, space)) + std::string(merge.substr(space + 1)), space});
  }
  return tokenizer;
}

std::optional<TokenId> gguf_token(const GgufKeys& keys, std::string_view key) {
  const auto id = keys.whole(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id > kMaxTokenId)
    fail("{}: key {} is {}; is the file damaged?", keys.label(), quoted_text(key), *id);
  return static_cast<TokenId>(*id);
}

}  // namespace baleen
