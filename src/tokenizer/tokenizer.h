/// Text to token ids and back, as Hugging Face's `tokenizer.json` describes it: added tokens are matched in
/// the raw text, patterns cut the rest into pieces, and byte pairs are merged within each piece.
///
/// Agrees id for id with the `tokenizers` library for the files it accepts (byte-level BPE;
/// tokenizer_json.h).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/marked_text.h"
#include "tensor/ragged_batch.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace baleen {

/// Immutable once loaded; every member may be called from any number of threads at once.
class Tokenizer {
 public:
  /// `model` is a folder with `tokenizer.json`, or such a file. `tokenizer_config.json` beside it, where
  /// there is one, names the tokens that begin and end a text. Of a GGUF model (`find_gguf`) everything is in
  /// its keys. Throws `Error` when a file is absent, damaged or not supported.
  static Tokenizer load(const std::filesystem::path& model);

  /// The same from memory, without a config. `name` is what sentences call the file.
  static Tokenizer parse(std::string_view tokenizer_json, std::string_view name);

  /// The ids of `text`. Added tokens in it are recognised; none is added. Any characters will do, NUL too.
  /// Fails when `text` is not valid UTF-8 (the sentence names the byte), is 2 GiB or longer, or makes a
  /// pattern of the file backtrack without end. Time grows as n log n at worst.
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text) const;

  /// The same, but added tokens are recognised where they are marked and nowhere else: the rest is encoded as
  /// text, whatever it spells. A marked stretch that is no added token here is text too. Where the text
  /// spells no added token outside the marks, the ids are those of `encode(text.text)`.
  [[nodiscard]] Result<std::vector<TokenId>> encode(const MarkedText& text) const;

  /// The text of `ids`, added tokens included. Bytes that are not UTF-8 become U+FFFD, one for each maximal
  /// part; ids without a token become nothing.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const;

  /// The bytes of one token, which need not be whole characters; empty for an id without a token. Lives as
  /// long as the tokenizer.
  [[nodiscard]] std::string_view bytes_of(TokenId id) const { return vocabulary_.bytes_of(id); }
  /// Whether there is a token of this id.
  [[nodiscard]] bool contains(TokenId id) const { return !bytes_of(id).empty(); }
  /// The id of an added token, by its whole text ("<think>").
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view added_token) const;
  /// Marked "special" in the file. Some added tokens, such as "<think>", are not.
  [[nodiscard]] bool is_special(TokenId id) const { return vocabulary_.is_special(id); }
  /// A token of the format, not of text: marked "special", or added. Ordinary text never encodes to it when
  /// it is encoded as text.
  [[nodiscard]] bool is_control(TokenId id) const {
    return id >= 0 && id < static_cast<TokenId>(control_.size()) && control_[id];
  }
  /// Highest id + 1, added tokens included. A model may have more rows than that.
  [[nodiscard]] TokenId vocab_size() const { return vocabulary_.size(); }
  /// Begin and end of a text, where the config names them.
  [[nodiscard]] std::optional<TokenId> bos() const { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const { return eos_; }

 private:
  Tokenizer(const TokenizerJson& json, std::string_view name);

  /// `cut(text, take_token, take_text)` divides the text into tokens that are given and stretches to encode.
  template <class Cut>
  [[nodiscard]] Result<std::vector<TokenId>> encode_between(std::string_view text, const Cut& cut) const;

  Vocabulary vocabulary_;
  std::vector<bool> control_;  ///< one for each id
  MergeTable merges_;
  PreTokenizer pre_tokenizer_;
  AddedTokens exact_;       ///< matched first, over the whole text
  AddedTokens normalized_;  ///< matched in what the first ones left
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
};

}  // namespace baleen
