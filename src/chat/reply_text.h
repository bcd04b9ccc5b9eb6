/// The reasoning or the content of a reply on its way out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baleen {

/// Text with the markup already taken out of it. At the places where markup was, what stood on both sides
/// does not join to a special string, and text after a tool call begins a paragraph of its own. What may
/// belong to a tool call that begins next waits: the `<` of its tag, the blank line before it, the opening
/// line of a code fence around it, a block's opening tag that was written without the token.
class ReplyText {
 public:
  /// What can go out.
  [[nodiscard]] std::string add(std::string_view text);
  /// Markup was taken out here.
  void note_markup() { is_joint_ = true; }
  /// A tool call may begin here: what waited, which is no longer part of this.
  [[nodiscard]] std::string take_lead();
  /// A tool call began or ended here: white space around it goes.
  void begin_paragraph();
  /// The end of this text: what waited.
  [[nodiscard]] std::string finish();

 private:
  std::string release(std::string text);

  std::string waiting_;
  std::string tail_;  ///< the last bytes that went out
  bool is_joint_ = false;
  bool is_after_paragraph_ = false;
};

/// The bytes at the end of a lead that the format has before a block's first token: the blank line and the
/// `<`.
[[nodiscard]] std::size_t opening_bytes(std::string_view lead);

/// What stands before those, without the lines of a code fence and of a block's opening tag.
[[nodiscard]] std::string text_of_lead(std::string_view lead);

}  // namespace baleen
