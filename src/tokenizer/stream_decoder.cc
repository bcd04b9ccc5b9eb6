#include "tokenizer/stream_decoder.h"

#include "base/utf8.h"

namespace baleen {

std::string StreamDecoder::push(TokenId id) {
  std::string text;
  pending_ += tokenizer_->bytes_of(id);
  pending_.erase(0, append_as_utf8(pending_, text));
  return text;
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace baleen
