/// A vocabulary arranged for masks: tokens in the order of their bytes, so that those that begin alike are
/// walked together.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/reply_constraint.h"
#include "grammar/split_cache.h"

namespace baleen {

class MaskVocabulary {
 public:
  struct Entry {
    std::string_view bytes;
    TokenId token = 0;
    std::uint16_t shared = 0;  ///< leading bytes that it has in common with the entry before
  };

  /// Throws `Error` when no ordinary token stands for some byte alone (a grammar could then get stuck), or
  /// when there is no end token or no `</think>`.
  MaskVocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size);

  /// Tokens that may stand in text under a grammar: all but special ones and other added ones, `｜DSML｜`
  /// excepted.
  [[nodiscard]] std::span<const Entry> text_tokens() const { return entries_; }
  /// Those of them that begin with that byte.
  [[nodiscard]] std::span<const Entry> beginning_with(std::uint8_t byte) const {
    return std::span(entries_).subspan(begins_[byte], begins_[byte + 1] - begins_[byte]);
  }
  [[nodiscard]] bool is_text(TokenId token) const {
    return token >= 0 && token < static_cast<TokenId>(is_text_.size()) && is_text_[token];
  }
  /// Empty for an id without a token.
  [[nodiscard]] std::string_view bytes_of(TokenId token) const {
    return token >= 0 && token < static_cast<TokenId>(tokens_.size()) ? tokens_[token] : std::string_view();
  }
  [[nodiscard]] std::size_t longest_token() const { return longest_; }
  [[nodiscard]] TokenId end_token() const { return end_token_; }
  [[nodiscard]] TokenId end_think() const { return end_think_; }
  /// `｜DSML｜`, without which no tool call begins; a vocabulary may lack it.
  [[nodiscard]] std::optional<TokenId> calls_token() const { return calls_token_; }
  [[nodiscard]] std::size_t mask_words() const { return mask_words_; }
  /// Every token but the end token.
  [[nodiscard]] const TokenMask& all_but_end() const { return all_but_end_; }
  /// Every token but `｜DSML｜`.
  [[nodiscard]] const TokenMask& all_but_calls() const { return all_but_calls_; }
  /// Of the rules that all grammars share.
  [[nodiscard]] SplitCache& builtin_splits() const { return builtin_splits_; }
  /// Tells vocabularies apart in the caches of grammars.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }

 private:
  std::string bytes_;  ///< all tokens, one behind the other
  std::vector<std::string_view> tokens_;
  std::vector<bool> is_text_;
  std::vector<Entry> entries_;
  std::array<std::size_t, 257> begins_{};
  std::size_t longest_ = 0;
  TokenId end_token_ = 0, end_think_ = 0;
  std::optional<TokenId> calls_token_;
  std::size_t mask_words_ = 0;
  TokenMask all_but_end_, all_but_calls_;
  std::uint64_t serial_;
  mutable SplitCache builtin_splits_;
};

/// How many bytes both begin with.
[[nodiscard]] std::size_t shared_beginning(std::string_view a, std::string_view b);

inline void allow(TokenMask& mask, TokenId token) { mask[token / 64] |= std::uint64_t{1} << (token % 64); }

}  // namespace baleen
