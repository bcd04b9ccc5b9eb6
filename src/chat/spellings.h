/// Characters and entities that a model writes for the ASCII ones of tags and JSON: full-width brackets,
/// no-break spaces, `&quot;`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

/// A text in ASCII spelling, and where each of its bytes stood.
struct PlainText {
  std::string text;
  std::vector<std::size_t> places;  ///< one for each byte and one for the end

  /// The bytes [begin, end) of `text`, as they stand in the `original`.
  [[nodiscard]] std::string_view in(std::string_view original, std::size_t begin, std::size_t end) const {
    return original.substr(places[begin], places[end] - places[begin]);
  }
};

/// Brackets, slashes, signs, quotation marks, digits and blanks in ASCII; zero-width characters vanish.
[[nodiscard]] PlainText in_plain_spelling(std::string_view text);

/// The same for JSON: strings, quotation marks included, stay as they are.
[[nodiscard]] std::string with_plain_syntax(std::string_view json);

/// The bytes of the last character of `text`, if it is a spelling of `plain`; 0 if not.
[[nodiscard]] std::size_t spelled_at_end(std::string_view text, std::string_view plain);

/// `is_blank` in any spelling of white space.
[[nodiscard]] bool says_nothing(std::string_view text);

/// Whether `word` is `meant` with at most `max_slips` letters lost, added, changed or swapped with their
/// neighbours.
[[nodiscard]] bool is_misspelt(std::string_view word, std::string_view meant, std::size_t max_slips);

}  // namespace baleen
