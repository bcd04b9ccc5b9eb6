#include "http/head_scanner.h"

namespace baleen {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace

HeadScanner::Verdict HeadScanner::feed(std::string_view bytes, std::size_t& used) {
  for (used = 0; used < bytes.size(); ++used) {
    const char c = bytes[used];
    switch (state_) {
      case State::kStart:
        if (c == '\r') {
          state_ = State::kBlank;
          break;
        }
        [[fallthrough]];
      case State::kFirst:
        if (is_control(c)) return Verdict::kBad;
        state_ = State::kText;
        break;
      case State::kText:
        if (c == '\r') {
          state_ = State::kCarriageReturn;
        } else if (is_control(c)) {
          return Verdict::kBad;
        }
        break;
      case State::kBlank:
        if (c != '\n') return Verdict::kBad;
        state_ = State::kFirst;
        break;
      case State::kCarriageReturn:
        if (c != '\n') return Verdict::kBad;
        state_ = State::kLineStart;
        break;
      case State::kLineStart:
        if (c == '\r') {
          state_ = State::kLastReturn;
        } else if (c == ' ' || is_control(c) || c == '\t') {
          return Verdict::kBad;
        } else {
          state_ = State::kText;
        }
        break;
      case State::kLastReturn:
        if (c != '\n') return Verdict::kBad;
        ++used;
        return Verdict::kEnd;
    }
  }
  return Verdict::kMore;
}

}  // namespace baleen
