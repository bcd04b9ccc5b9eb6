#include "terminal/terminal_keys.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cwchar>
#include <string_view>

namespace baleen {
namespace {

constexpr char kEscape = '\x1B';
constexpr std::string_view kPasteBegins = "\x1B[200~";
constexpr std::string_view kPasteEnds = "\x1B[201~";
/// A sequence of the terminal comes in one piece; a person's ESC stands alone.
constexpr int kSequenceGapMs = 50;

/// A paste as the editor may see it: line ends as newlines, no other control characters but tabs.
std::string editable(std::string_view pasted) {
  std::string text;
  for (std::size_t i = 0; i < pasted.size(); ++i) {
    const char letter = pasted[i];
    if (letter == '\r') {
      text += '\n';
      if (i + 1 < pasted.size() && pasted[i + 1] == '\n') ++i;
    } else if (letter == '\n' || letter == '\t' ||
               (static_cast<unsigned char>(letter) >= ' ' && letter != '\x7F')) {
      text += letter;
    }
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

int TerminalKeys::byte(Wait wait) {
  if (wait == Wait::kShortly) {
    pollfd descriptor{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&descriptor, 1, kSequenceGapMs) != 1) return -1;
  }
  unsigned char read = 0;
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, &read, 1);
  } while (count < 0 && errno == EINTR);
  if (count == 0) errno = 0;
  return count == 1 ? read : -1;
}

void TerminalKeys::drop_paste() {
  ready_.clear();
  position_ = num_pasted_ = 0;
}

bool TerminalKeys::read_paste() {
  std::string text;
  bool too_long = false;
  while (!text.ends_with(kPasteEnds)) {
    const int next = byte(Wait::kIndefinitely);
    if (next < 0) break;
    text += static_cast<char>(next);
    if (text.size() > kMaxPastedBytes) {
      too_long = true;
      text.erase(0, text.size() - kPasteEnds.size());
    }
  }
  if (too_long) return false;
  if (text.ends_with(kPasteEnds)) text.erase(text.size() - kPasteEnds.size());
  ready_ = editable(text);
  num_pasted_ = ready_.size();
  return true;
}

bool TerminalKeys::read_escape() {
  std::string sequence(1, kEscape);
  while (kPasteBegins.starts_with(sequence)) {
    if (sequence == kPasteBegins) return read_paste();
    const int next = byte(Wait::kShortly);
    if (next < 0) break;
    sequence += static_cast<char>(next);
  }
  ready_ = sequence;
  return true;
}

TerminalKeys::Status TerminalKeys::next(wchar_t& key) {
  constexpr wchar_t kReplacement = 0xFFFD;
  std::mbstate_t state{};
  bool first = true;
  for (;;) {
    int value = 0;
    if (position_ == ready_.size()) {
      ready_.clear();
      position_ = 0;
      value = byte(Wait::kIndefinitely);
      if (value < 0) return errno == 0 ? Status::kEnd : Status::kError;
      if (value == kEscape && first) {
        if (!read_escape()) return Status::kTooLong;
        continue;
      }
    } else {
      value = static_cast<unsigned char>(ready_[position_++]);
      if (num_pasted_ > 0) --num_pasted_;
    }
    first = false;
    const char letter = static_cast<char>(value);
    const std::size_t length = std::mbrtowc(&key, &letter, 1, &state);
    if (length == static_cast<std::size_t>(-2)) continue;  // more of the character is to come
    if (length == static_cast<std::size_t>(-1)) key = kReplacement;
    return Status::kKey;
  }
}

}  // namespace baleen
