/// Which tokens of a reply have logprobs to show: those of content, not those of a tool call's markup.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "protocols/protocol.h"

namespace baleen {

/// A tool call takes the rest of the reply, from the blank line and the `<` before its first `｜DSML｜` token on. So
/// tokens of white space and `<` wait for the one after them.
class ContentLogprobs {
 public:
  /// `begins_call`: the token is `｜DSML｜`.
  void add(TokenLogprobs token, bool begins_call) {
    is_in_call_ |= begins_call;
    if (is_in_call_) {
      waiting_.clear();
      return;
    }
    const bool may_lead = token.token.bytes.find_first_not_of(" \t\r\n<") == std::string_view::npos;
    waiting_.push_back(std::move(token));
    if (may_lead) return;
    ready_.insert(ready_.end(), std::move_iterator(waiting_.begin()), std::move_iterator(waiting_.end()));
    waiting_.clear();
  }
  /// Those that became certain.
  [[nodiscard]] std::vector<TokenLogprobs> take() { return std::exchange(ready_, {}); }
  /// The reply is over: those that waited.
  [[nodiscard]] std::vector<TokenLogprobs> finish() { return std::exchange(waiting_, {}); }

 private:
  std::vector<TokenLogprobs> ready_, waiting_;
  bool is_in_call_ = false;
};

}  // namespace baleen
