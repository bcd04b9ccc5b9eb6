// The input up to its first NUL is a tokenizer.json, the rest a text for it. Whatever either holds: no crash,
// and a tokenizer that loads decodes in a stream as it does at once. (That tokens are the bytes of the text
// is no property of every file: an added token in the byte-level alphabet stands for other bytes than it is
// matched by.)
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

void require(bool kept) {
  if (!kept) std::abort();
}

void exercise(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text);
  if (!ids) return;
  std::string streamed;
  StreamDecoder decoder(tokenizer);
  for (const TokenId id : ids.value()) {
    streamed += decoder.push(id);
  }
  streamed += decoder.finish();
  require(streamed == tokenizer.decode(ids.value()));
}

}  // namespace
}  // namespace baleen

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  try {
    const auto tokenizer = baleen::Tokenizer::parse(input.substr(0, end), "fuzz");
    baleen::exercise(tokenizer, input.substr(std::min(end + 1, input.size())));
  } catch (const baleen::Error&) {
    // A file that is refused; the sentence is for people.
  }
  return 0;
}
