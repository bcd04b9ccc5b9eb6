/// Text in which some stretches are control tokens. The same characters elsewhere are text: "</think>" that a
/// user typed, or that the model spelled letter by letter, ends nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

/// Bytes [begin, begin + size).
struct TextRange {
  std::size_t begin = 0;
  std::size_t size = 0;

  [[nodiscard]] std::size_t end() const { return begin + size; }
  bool operator==(const TextRange&) const = default;
};

struct MarkedText {
  std::string text;                 ///< UTF-8
  std::vector<TextRange> controls;  ///< whole control tokens, in order, disjoint

  void add_text(std::string_view added) { text += added; }
  void add_control(std::string_view token) {
    controls.push_back({text.size(), token.size()});
    text += token;
  }
  void append(const MarkedText& other) {
    for (const TextRange& range : other.controls) controls.push_back({text.size() + range.begin, range.size});
    text += other.text;
  }
  [[nodiscard]] std::string_view text_of(const TextRange& range) const {
    return std::string_view(text).substr(range.begin, range.size);
  }
  bool operator==(const MarkedText&) const = default;
};

/// Calls `take_text(std::string_view)` and `take_control(std::string_view)` in order; no text is empty.
template <class TakeText, class TakeControl>
void for_each_stretch(const MarkedText& marked, TakeText&& take_text, TakeControl&& take_control) {
  const std::string_view text = marked.text;
  std::size_t done = 0;
  for (const TextRange& control : marked.controls) {
    if (control.begin > done) take_text(text.substr(done, control.begin - done));
    take_control(marked.text_of(control));
    done = control.end();
  }
  if (done < text.size()) take_text(text.substr(done));
}

}  // namespace baleen
