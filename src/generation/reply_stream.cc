#include "generation/reply_stream.h"

#include <algorithm>
#include <utility>

namespace baleen {

MarkedText ReplyStream::push(TokenId id) {
  const std::string text = decoder_.push(id);
  num_decoded_ += text.size();
  if (tokenizer_->is_control(id)) {
    // Whole characters: nothing of it waits in the decoder.
    const std::size_t size = std::min(tokenizer_->bytes_of(id).size(), text.size());
    controls_.push_back({num_decoded_ - size, size});
  }
  return show(stops_.feed(text), false);
}

MarkedText ReplyStream::finish() {
  std::string rest;
  if (!stops_.stopped()) rest = stops_.feed(decoder_.finish());
  if (!stops_.stopped()) rest += stops_.finish();
  return show(rest, true);
}

MarkedText ReplyStream::show(const std::string& text, bool last) {
  ready_ += text;
  MarkedText shown;
  std::size_t done = 0;
  const auto show_text_up_to = [&](std::size_t end) {
    shown.add_text(std::string_view(ready_).substr(done, end - done));
    done = end;
  };
  while (!controls_.empty() && controls_.front().begin < num_shown_ + ready_.size()) {
    show_text_up_to(controls_.front().begin - num_shown_);
    const TextRange control = controls_.front();
    if (control.end() > num_shown_ + ready_.size()) {
      if (last || stops_.stopped()) done = ready_.size();
      num_shown_ += done;
      ready_.erase(0, done);
      return shown;
    }
    shown.add_control(std::string_view(ready_).substr(done, control.size));
    done += control.size;
    controls_.pop_front();
  }
  show_text_up_to(ready_.size());
  num_shown_ += ready_.size();
  ready_.clear();
  return shown;
}

}  // namespace baleen
