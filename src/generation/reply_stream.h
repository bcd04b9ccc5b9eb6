/// The text of a reply from its tokens: whole characters, up to a stop string in its content, control
/// tokens marked.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "base/reply_divider.h"
#include "generation/stop_detector.h"
#include "tokenizer/stream_decoder.h"

namespace baleen {

/// Only the token's id says whether "｜DSML｜" is the token or text that looks like it, so each control token
/// is marked here, where ids become text. What is given out, joined, is the decoded text up to the stop
/// string; a control token that a stop string cuts is left out whole. Stop strings are looked for in content
/// alone: each text of it is searched by itself, what lies between passes.
class ReplyStream {
 public:
  /// The tokenizer outlives the stream. `make_divider` says what is content; it is used only if there are
  /// stop strings.
  ReplyStream(const Tokenizer& tokenizer, std::vector<std::string> stops,
              const MakeReplyDivider& make_divider = {});

  /// What may be shown from now on. Nothing after a stop.
  [[nodiscard]] MarkedText push(TokenId id);
  /// Forgets the beginning of a character that the tokens so far leave unfinished.
  void drop_unfinished() { decoder_.drop_unfinished(); }
  /// The reply is over: what was held back. A stop string may be found only now.
  [[nodiscard]] MarkedText finish();

  [[nodiscard]] bool stopped() const { return stops_.stopped(); }
  /// Which of the stop strings; only after `stopped()`.
  [[nodiscard]] std::size_t stop_idx() const { return stops_.stop_idx(); }

 private:
  void read(const std::vector<ReplyStretch>& stretches, MarkedText& shown);
  void read_content(const MarkedText& text, MarkedText& shown);
  /// No stop string begins in what waits.
  void end_content(MarkedText& shown);
  void show_ready(MarkedText& shown);

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  std::unique_ptr<ReplyDivider> divider_;  ///< null: all is content
  StopDetector stops_;
  MarkedText waiting_;         ///< content not given out yet
  std::size_t num_ready_ = 0;  ///< bytes of it that no stop string begins in
};

}  // namespace baleen
