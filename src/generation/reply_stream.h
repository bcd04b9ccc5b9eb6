/// The text of a reply from its tokens: whole characters, up to a stop string, control tokens marked.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "generation/stop_detector.h"
#include "tokenizer/stream_decoder.h"

namespace baleen {

/// Only the token's id says whether "｜DSML｜" is the token or text that looks like it, so each control token is marked
/// here, where ids become text. What is given out, joined, is the decoded text up to the stop string; a control token
/// that a stop string cuts is left out whole.
class ReplyStream {
 public:
  /// The tokenizer outlives the stream.
  ReplyStream(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : tokenizer_(&tokenizer), decoder_(tokenizer), stops_(std::move(stops)) {}

  /// What may be shown from now on. Nothing after a stop.
  [[nodiscard]] MarkedText push(TokenId id);
  /// The reply is over: what was held back.
  [[nodiscard]] MarkedText finish();

  [[nodiscard]] bool stopped() const { return stops_.stopped(); }
  /// Which of the stop strings; only after `stopped()`.
  [[nodiscard]] std::size_t stop_idx() const { return stops_.stop_idx(); }

 private:
  [[nodiscard]] MarkedText show(const std::string& text, bool last);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  StopDetector stops_;
  std::size_t num_decoded_ = 0;     ///< bytes of the reply that went to the stop detector
  std::size_t num_shown_ = 0;       ///< bytes given out
  std::string ready_;               ///< may be shown, but for part of a control token at its end
  std::deque<TextRange> controls_;  ///< not given out yet; counted from the reply's first byte
};

}  // namespace baleen
