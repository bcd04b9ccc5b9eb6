#include "generation/stop_detector.h"

#include <algorithm>
#include <utility>

namespace baleen {
namespace {

// Length of the longest prefix of `text` that the input ends with after one more byte, from the same before
// it.
std::size_t advance(const std::string& text, const std::vector<std::size_t>& border, std::size_t matched,
                    char byte) {
  while (matched > 0 && text[matched] != byte) matched = border[matched];
  return text[matched] == byte ? matched + 1 : 0;
}

}  // namespace

StopDetector::StopDetector(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    std::vector<std::size_t> border(stop.size() + 1, 0);
    for (std::size_t n = 2; n <= stop.size(); ++n)
      border[n] = advance(stop, border, border[n - 1], stop[n - 1]);
    patterns_.push_back({std::move(stop), std::move(border)});
  }
}

std::string StopDetector::feed(std::string_view piece) {
  if (stopped()) return "";
  for (std::size_t at = 0; at < piece.size(); ++at) {
    std::size_t stop_bytes = 0;
    for (std::size_t idx = 0; idx < patterns_.size(); ++idx) {
      Pattern& pattern = patterns_[idx];
      if (pattern.text.empty()) continue;
      pattern.matched = advance(pattern.text, pattern.border, pattern.matched, piece[at]);
      if (pattern.matched == pattern.text.size() && pattern.matched > stop_bytes) {
        stop_bytes = pattern.matched;
        stop_idx_ = idx;
      }
    }
    if (stopped()) {
      held_.append(piece.substr(0, at + 1));
      held_.resize(held_.size() - stop_bytes);
      return std::exchange(held_, "");
    }
  }
  held_.append(piece);
  std::size_t keep_bytes = 0;
  for (const Pattern& pattern : patterns_) keep_bytes = std::max(keep_bytes, pattern.matched);
  std::string shown = held_.substr(0, held_.size() - keep_bytes);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopDetector::finish() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, "");
}

}  // namespace baleen
