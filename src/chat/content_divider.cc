#include "chat/content_divider.h"

#include <algorithm>
#include <utility>

#include "chat/format.h"

namespace baleen {
namespace {

using namespace chat_format;

/// Before the token of a closing tag.
constexpr std::string_view kClosing = "</";

}  // namespace

ContentDivider::ContentDivider(ThinkingMode mode, bool may_call, CallEnforcement enforcement,
                               const CallTags& tags)
    : may_call_(may_call),
      block_name_(tags.calls + ">"),
      enforcement_(enforcement),
      place_(mode == ThinkingMode::kThinking ? Place::kReasoning : body_place()) {}

std::vector<ReplyStretch> ContentDivider::feed(const MarkedText& piece) {
  for_each_stretch(
      piece, [this](std::string_view text) { read_text(text); },
      [this](std::string_view token) { read_control(token); });
  return std::exchange(stretches_, {});
}

std::vector<ReplyStretch> ContentDivider::finish() {
  if (place_ == Place::kContent) give_text(content_.finish(), true);
  if (place_ == Place::kBodyBegin && !held_.text.empty()) stretch(false).append(std::exchange(held_, {}));
  return std::exchange(stretches_, {});
}

void ContentDivider::read_text(std::string_view text) {
  switch (place_) {
    case Place::kReasoning:
      return give_text(text, false);
    case Place::kBodyBegin:
      held_.add_text(text);
      return read_body_begin();
    case Place::kContent:
      return give_text(content_.add(text), true);
    case Place::kBlock:
      return read_block(text);
  }
}

void ContentDivider::read_control(std::string_view token) {
  switch (place_) {
    case Place::kReasoning:
      if (token == kEndThink) place_ = body_place();
      return give_control(token, false);
    case Place::kBodyBegin:
      held_.add_control(token);
      return read_body_begin();
    case Place::kContent:
      if (token == kDsml && may_call_) {
        give_text(content_.take_lead(), false);
        place_ = Place::kBlock;
        return give_control(token, false);
      }
      give_text(content_.finish(), true);
      return give_control(token, true);
    case Place::kBlock:
      if (token == kDsml && block_tail_ == kClosing) num_name_ = 0;
      return give_control(token, false);
  }
}

ContentDivider::Place ContentDivider::body_place() const {
  return enforcement_ == CallEnforcement::kWholeBody ? Place::kBodyBegin : Place::kContent;
}

void ContentDivider::read_body_begin() {
  if (held_.text.size() < kBlockStart.size() && kBlockStart.starts_with(held_.text)) return;
  const MarkedText body = std::exchange(held_, {});
  if (body.text.starts_with(kBlockStart)) {
    place_ = Place::kBlock;
    stretch(false).append(body);
    return;
  }
  place_ = Place::kContent;
  stretch(true).append(body);
}

void ContentDivider::read_block(std::string_view text) {
  if (num_name_ && enforcement_ == CallEnforcement::kNone) {
    const std::string_view rest_of_name = std::string_view(block_name_).substr(*num_name_);
    const auto size = static_cast<std::size_t>(std::ranges::mismatch(text, rest_of_name).in1 - text.begin());
    *num_name_ += size;
    if (*num_name_ == block_name_.size()) {
      give_text(text.substr(0, size), false);
      num_name_.reset();
      block_tail_.clear();
      content_ = {};
      place_ = Place::kContent;
      return give_text(content_.add(text.substr(size)), true);
    }
    if (size < text.size()) num_name_.reset();
  }
  give_text(text, false);
  block_tail_ += text.substr(text.size() - std::min(text.size(), kClosing.size()));
  block_tail_.erase(0, block_tail_.size() - std::min(block_tail_.size(), kClosing.size()));
}

void ContentDivider::give_text(std::string_view text, bool is_content) {
  if (!text.empty()) stretch(is_content).add_text(text);
}

void ContentDivider::give_control(std::string_view token, bool is_content) {
  stretch(is_content).add_control(token);
}

MarkedText& ContentDivider::stretch(bool is_content) {
  if (stretches_.empty() || stretches_.back().is_content != is_content)
    stretches_.push_back({.text = {}, .is_content = is_content});
  return stretches_.back().text;
}

MakeReplyDivider content_divider(ThinkingMode mode, bool may_call, CallEnforcement enforcement,
                                 const CallTags& tags) {
  return [mode, may_call, enforcement, &tags] {
    return std::make_unique<ContentDivider>(mode, may_call, enforcement, tags);
  };
}

}  // namespace baleen
