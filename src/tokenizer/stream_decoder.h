/// Text from tokens that come one at a time.
#pragma once

#include <string>

#include "tensor/ragged_batch.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// A token may end inside a character; its bytes wait here until the character is whole. What all pushes and
/// `finish` returned, one after the other, is what `Tokenizer::decode` makes of all ids. One for each stream.
class StreamDecoder {
 public:
  /// The tokenizer outlives the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// The text that became certain with `id`: whole characters, perhaps none.
  [[nodiscard]] std::string push(TokenId id);
  /// The rest: U+FFFD for a character that was never finished. The decoder is then as new.
  [[nodiscard]] std::string finish();
  /// Forgets the beginning of a character that waits, as if its tokens had not come.
  void drop_unfinished() { pending_.clear(); }

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  ///< the beginning of a character, at most three bytes between calls
};

}  // namespace baleen
