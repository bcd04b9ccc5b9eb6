/// Which tokens of a reply are its content: logprobs are reported for those alone, not for the markup of tool
/// calls nor for a stop string.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "protocols/protocol.h"

namespace baleen {

/// Tokens wait until content covers their first byte. Content comes before the calls, so counting bytes is
/// enough.
class ContentLogprobs {
 public:
  void add(TokenLogprobs token) { waiting_.push_back(std::move(token)); }

  /// The tokens of so many more bytes of content.
  [[nodiscard]] std::vector<TokenLogprobs> take(std::size_t content_bytes) {
    std::vector<TokenLogprobs> tokens;
    content_end_ += content_bytes;
    while (!waiting_.empty() && next_begin_ < content_end_) pop_into(tokens);
    return tokens;
  }
  /// All that waits: of a reply that ends with content.
  [[nodiscard]] std::vector<TokenLogprobs> rest() {
    std::vector<TokenLogprobs> tokens;
    while (!waiting_.empty()) pop_into(tokens);
    return tokens;
  }

 private:
  void pop_into(std::vector<TokenLogprobs>& tokens) {
    next_begin_ += waiting_.front().token.bytes.size();
    tokens.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }

  std::deque<TokenLogprobs> waiting_;
  /// Where the first that waits begins, in bytes of the reply after its reasoning.
  std::size_t next_begin_ = 0;
  std::size_t content_end_ = 0;  ///< bytes of content so far
};

}  // namespace baleen
