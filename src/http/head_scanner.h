/// Finds the end of a request's head and refuses the bytes that servers are known to read differently.
///
/// Refused at once: a control character (NUL among them), a line feed or carriage return on its own, and a
/// folded line. Beast's parser joins folded lines and takes some of the rest for "more to come"; this reader
/// runs before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baleen {

class HeadScanner {
 public:
  enum class Verdict : std::uint8_t { kMore, kEnd, kBad };

  /// Reads on, at most to the blank line that ends the head; `used` becomes the number of bytes read. One
  /// empty line before the request is skipped over, as RFC 9112 section 2.2 asks. Not after kEnd or kBad.
  Verdict feed(std::string_view bytes, std::size_t& used);

 private:
  enum class State : std::uint8_t { kStart, kBlank, kFirst, kText, kCarriageReturn, kLineStart, kLastReturn };
  State state_ = State::kStart;
};

}  // namespace baleen
