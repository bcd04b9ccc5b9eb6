#include "tokenizer/compressed_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/text_folding.h"

namespace baleen {
namespace {

constexpr std::string_view kRunOf = " \t\r\n";

/// Characters with Unicode's property White_Space, as a text of its own.
bool is_space(std::string_view character) {
  if (character.size() == 1) return character[0] == ' ' || (character[0] >= '\t' && character[0] <= '\r');
  constexpr std::string_view kWide[] = {"\u0085", "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                        "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200A",
                                        "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};
  for (const std::string_view space : kWide)
    if (character == space) return true;
  return false;
}

std::string with_single_spaces(std::string_view text) {
  std::string out;
  bool in_run = false;
  for (const char byte : text) {
    const bool is_run = kRunOf.find(byte) != std::string_view::npos;
    if (!is_run) out += byte;
    if (is_run && !in_run) out += ' ';
    in_run = is_run;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = next_utf8(text.substr(at)).size;
    if (!is_space(text.substr(at, size))) {
      begin = std::min(begin, at);
      end = at + size;
    }
    at += size;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view{};
}

std::string key_of(std::string_view bytes) {
  std::string text;
  const bool is_whole = !find_invalid_utf8(bytes) && bytes.find(kReplacementCharacter) == std::string::npos;
  if (!is_whole) {
    for (const char byte : bytes) text += byte_level_character(static_cast<std::uint8_t>(byte));
    return text;
  }
  text = with_single_spaces(fold_text(bytes));
  if (text == " ") return text;
  const std::string_view kept = trimmed(text);
  return std::string(kept.empty() ? bytes : kept);
}

}  // namespace

CompressedVocabulary compress_vocabulary(const Tokenizer& tokenizer) {
  CompressedVocabulary vocabulary;
  std::unordered_map<std::string, TokenId> ids;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto next = static_cast<TokenId>(ids.size());
    vocabulary.of_token.push_back(ids.try_emplace(key_of(tokenizer.bytes_of(id)), next).first->second);
  }
  vocabulary.size = std::ssize(ids);
  return vocabulary;
}

std::string why_not_vocabulary(const CompressedVocabulary& vocabulary, std::int64_t expected) {
  if (vocabulary.size == expected) return "";
  return fmt::format(
      "its {} tokens are {} without accents, case and kinds of space, expected {} "
      "(\"engram_compressed_vocab_size\"), by which n-grams are hashed: take the checkpoint's own tokenizer",
      vocabulary.of_token.size(), vocabulary.size, expected);
}

}  // namespace baleen
