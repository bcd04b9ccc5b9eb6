/// The reasoning or the content of a reply on its way out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baleen {

/// Text with the markup already taken out of it. Keeps two promises at the places where it was: what stood on both
/// sides does not join to a special string, and text after a tool call begins a paragraph of its own. The last two
/// newlines wait: they may be the blank line before a tool call.
class ReplyText {
 public:
  /// What can go out.
  [[nodiscard]] std::string add(std::string_view text);
  /// Markup was taken out here.
  void note_markup() { is_joint_ = true; }
  /// A tool call begins or ended here: white space around it goes. Returns the newlines that waited.
  std::string end_paragraph();
  /// The end of this text: what waited.
  [[nodiscard]] std::string finish();

 private:
  std::string waiting_;  ///< newlines, at most two
  std::string tail_;     ///< the last bytes that went out
  bool is_joint_ = false;
  bool is_after_paragraph_ = false;
};

}  // namespace baleen
