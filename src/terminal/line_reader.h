/// The person at the terminal: lines they type, and text that looks different from other text.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace baleen {

/// Reads what is typed, with line editing and the history of this run; plain lines where `in` or `out` is not
/// a terminal, so that a conversation can be piped in, and in windows too small or too large for an editor.
/// Sets the process's character type locale to one with UTF-8.
class LineReader {
 public:
  /// `prompt` is shown before each line on a terminal.
  explicit LineReader(std::string prompt, std::FILE* in = stdin, std::FILE* out = stdout);
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader();

  /// The next line without its end; none at the end of the input (Ctrl-D on an empty line). Lines that are
  /// pasted together come as one text with newlines inside; in a terminal that marks no pastes, lines that
  /// come together after one that begins with a slash stay apart. Ctrl-C drops what was typed and asks again,
  /// and so does a text of more than `kLongestTextBytes`, with a sentence.
  [[nodiscard]] std::optional<std::string> read();

  static constexpr std::size_t kLongestTextBytes = std::size_t{1} << 20;

 private:
  struct Editor;

  [[nodiscard]] std::optional<std::string> read_plain();
  [[nodiscard]] std::optional<std::string> read_edited();

  std::FILE* in_;
  std::FILE* out_;
  std::string prompt_;              // for plain lines from a terminal
  bool understands_ = false;        // the terminal knows bracketed paste
  std::unique_ptr<Editor> editor_;  // none when not on a terminal
};

/// Escape sequences to print before and after text; empty where they would not be understood or are not
/// wanted.
struct TextStyle {
  std::string_view dim, bold, plain;
};

/// Sequences if `out` is a terminal that knows them (TERM is not "dumb") and NO_COLOR is unset or empty.
[[nodiscard]] TextStyle text_style(std::FILE* out);

}  // namespace baleen
