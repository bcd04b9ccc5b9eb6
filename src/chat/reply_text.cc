#include "chat/reply_text.h"

#include <algorithm>
#include <utility>

#include "chat/attributes.h"
#include "chat/block_scanner.h"
#include "chat/special_strings.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxNewlines = 2;
constexpr std::size_t kTailBytes = 40;  // longer than any special string
constexpr std::size_t kMaxLeadBytes = 128;
constexpr std::string_view kFence = "```";

bool ends_like_start_of_special(std::string_view text) {
  return std::ranges::any_of(special_strings(), [text](std::string_view special) {
    for (std::size_t size = 1; size < special.size(); ++size) {
      if (text.ends_with(special.substr(0, size))) return true;
    }
    return false;
  });
}

/// The first line of a code fence, or its beginning.
bool may_be_fence(std::string_view line) {
  line = trimmed(line);
  if (line.size() < kFence.size()) return !line.empty() && kFence.starts_with(line);
  return line.starts_with(kFence) &&
         leading_word(line.substr(kFence.size())).size() == line.size() - kFence.size();
}

/// A block's opening tag without the token, or its beginning: `<|DSML|tool_calls>`, `<tool_calls>`.
bool may_be_opening(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('<')) return false;
  line.remove_prefix(1);
  for (const std::string_view part : {"|", "｜", "DSML", "|", "｜"}) {
    if (line.starts_with(part)) line.remove_prefix(part.size());
    if (part.starts_with(line)) return true;
  }
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"tool_calls>", "function_calls>", " calls>"},
      [line](std::string_view rest) { return rest.starts_with(line); });
}

/// Of `&lt;`, which may stand for the `<` of a tag.
std::size_t begun_entity_bytes(std::string_view text) {
  static constexpr std::string_view kEntity = "&lt;";
  for (std::size_t size = kEntity.size() - 1; size > 0; --size) {
    if (text.ends_with(kEntity.substr(0, size))) return size;
  }
  return 0;
}

/// Where the end of `text` begins that may belong to a tool call after it. `at_line_start`: so is the
/// beginning. Blanks at the start of a line belong to what may follow them.
std::size_t lead_begin(std::string_view text, bool at_line_start) {
  std::size_t begin = text.size() - std::max(tag_prefix_bytes(text), begun_entity_bytes(text));
  const std::size_t least = text.size() - std::min(text.size(), kMaxLeadBytes);
  while (true) {
    const std::size_t end = text.substr(0, begin).find_last_not_of(kWhiteSpace) + 1;
    const std::size_t newline = text.substr(0, end).rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == end || line < least || (line == 0 && !at_line_start)) break;
    const std::string_view content = text.substr(line, end - line);
    if (!may_be_fence(content) && !may_be_opening(content)) break;
    begin = line;
  }
  const std::size_t end = text.substr(0, begin).find_last_not_of(" \t") + 1;
  if (end >= least && (end == 0 ? at_line_start : text[end - 1] == '\n')) begin = end;
  for (std::size_t num = 0; num < kMaxNewlines && begin > 0 && text[begin - 1] == '\n'; ++num) --begin;
  return begin;
}

}  // namespace

std::string ReplyText::add(std::string_view text) {
  if (is_after_paragraph_) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
    if (text.empty()) return {};
    if (!tail_.empty()) waiting_ = "\n\n";
    is_after_paragraph_ = false;
  }
  if (is_joint_ && !text.empty()) {
    if (ends_like_start_of_special(waiting_.empty() ? tail_ : waiting_)) waiting_ += ' ';
    is_joint_ = false;
  }
  waiting_ += text;
  const std::size_t begin = lead_begin(waiting_, tail_.empty() || tail_.ends_with('\n'));
  std::string out = waiting_.substr(0, begin);
  waiting_.erase(0, begin);
  return release(std::move(out));
}

std::string ReplyText::take_lead() { return std::exchange(waiting_, {}); }

void ReplyText::begin_paragraph() {
  waiting_.clear();
  is_joint_ = is_after_paragraph_ = true;
}

std::string ReplyText::finish() { return release(std::exchange(waiting_, {})); }

std::string ReplyText::release(std::string text) {
  tail_ += std::string_view(text).substr(text.size() - std::min(text.size(), kTailBytes));
  tail_.erase(0, tail_.size() - std::min(tail_.size(), kTailBytes));
  return text;
}

std::size_t opening_bytes(std::string_view lead) {
  std::size_t begin = lead.size() - tag_prefix_bytes(lead);
  for (std::size_t num = 0; num < kMaxNewlines && begin > 0 && lead[begin - 1] == '\n'; ++num) --begin;
  return lead.size() - begin;
}

std::string text_of_lead(std::string_view lead) {
  lead.remove_suffix(opening_bytes(lead));
  std::string text;
  bool is_whole = true;
  for (std::string_view rest = lead; !rest.empty();) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    rest.remove_prefix(line.size());
    const bool is_fence = may_be_fence(line) && trimmed(line).starts_with(kFence);
    const bool is_opening = may_be_opening(line) && trimmed(line).ends_with('>');
    if (!is_fence && !is_opening) text += line;
    is_whole &= !is_fence && !is_opening;
  }
  if (!is_whole) text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace baleen
