#include "chat/reply_text.h"

#include <algorithm>
#include <utility>

#include "chat/markup.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

constexpr std::size_t kMostNewlines = 2;
constexpr std::size_t kTailBytes = 40;  // longer than any special string

bool ends_like_start_of_special(std::string_view text) {
  return std::ranges::any_of(special_strings(), [text](std::string_view special) {
    for (std::size_t size = 1; size < special.size(); ++size) {
      if (text.ends_with(special.substr(0, size))) return true;
    }
    return false;
  });
}

}  // namespace

std::string ReplyText::add(std::string_view text) {
  std::string out;
  if (is_after_paragraph_) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
    if (text.empty()) return out;
    if (!tail_.empty()) out = "\n\n";
    is_after_paragraph_ = false;
  }
  out += std::exchange(waiting_, {});
  if (is_joint_ && !text.empty()) {
    if (out.empty() && ends_like_start_of_special(tail_)) out = " ";
    is_joint_ = false;
  }
  out += text;
  while (out.ends_with('\n') && waiting_.size() < kMostNewlines) {
    out.pop_back();
    waiting_ += '\n';
  }
  tail_ += std::string_view(out).substr(out.size() - std::min(out.size(), kTailBytes));
  tail_.erase(0, tail_.size() - std::min(tail_.size(), kTailBytes));
  return out;
}

std::string ReplyText::end_paragraph() {
  is_joint_ = is_after_paragraph_ = true;
  return std::exchange(waiting_, {});
}

std::string ReplyText::finish() { return std::exchange(waiting_, {}); }

}  // namespace baleen
