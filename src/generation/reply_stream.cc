#include "generation/reply_stream.h"

#include <algorithm>
#include <utility>

namespace baleen {

ReplyStream::ReplyStream(const Tokenizer& tokenizer, std::vector<std::string> stops,
                         const MakeReplyDivider& make_divider)
    : tokenizer_(&tokenizer),
      decoder_(tokenizer),
      divider_(!stops.empty() && make_divider ? make_divider() : nullptr),
      stops_(std::move(stops)) {}

MarkedText ReplyStream::push(TokenId id) {
  MarkedText piece, shown;
  const std::string text = decoder_.push(id);
  // A control token is whole characters: nothing of it waits in the decoder.
  const std::size_t size =
      tokenizer_->is_control(id) ? std::min(tokenizer_->bytes_of(id).size(), text.size()) : 0;
  piece.add_text(std::string_view(text).substr(0, text.size() - size));
  if (size > 0) piece.add_control(std::string_view(text).substr(text.size() - size));
  if (divider_) {
    read(divider_->feed(piece), shown);
  } else {
    read_content(piece, shown);
  }
  return shown;
}

MarkedText ReplyStream::finish() {
  MarkedText piece, shown;
  piece.add_text(decoder_.finish());
  if (divider_) {
    read(divider_->feed(piece), shown);
    read(divider_->finish(), shown);
  } else {
    read_content(piece, shown);
  }
  end_content(shown);
  return shown;
}

void ReplyStream::read(const std::vector<ReplyStretch>& stretches, MarkedText& shown) {
  for (const ReplyStretch& stretch : stretches) {
    if (stretch.is_content) {
      read_content(stretch.text, shown);
      continue;
    }
    end_content(shown);
    if (!stopped()) shown.append(stretch.text);
  }
}

void ReplyStream::read_content(const MarkedText& text, MarkedText& shown) {
  if (stopped()) return;
  waiting_.append(text);
  num_ready_ += stops_.feed(text.text).size();
  show_ready(shown);
}

void ReplyStream::end_content(MarkedText& shown) {
  if (stopped()) return;
  num_ready_ += stops_.finish().size();
  show_ready(shown);
}

void ReplyStream::show_ready(MarkedText& shown) {
  MarkedText rest;
  std::size_t done = 0;
  for_each_stretch(
      waiting_,
      [&](std::string_view text) {
        const std::size_t size = rest.text.empty() ? std::min(text.size(), num_ready_ - done) : 0;
        shown.add_text(text.substr(0, size));
        rest.add_text(text.substr(size));
        done += size;
      },
      [&](std::string_view token) {
        if (rest.text.empty() && token.size() <= num_ready_ - done) {
          shown.add_control(token);
          done += token.size();
        } else {
          rest.add_control(token);
        }
      });
  waiting_ = std::move(rest);
  num_ready_ -= done;
}

}  // namespace baleen
