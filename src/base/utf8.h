/// UTF-8: where text stops being valid, whether its last character is whole, and bytes to text with U+FFFD
/// for what is not valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baleen {

/// The first character, or maximal invalid part, of some bytes.
struct Utf8Step {
  enum class Kind : std::uint8_t {
    kValid,      ///< one whole character
    kInvalid,    ///< bytes that no character begins with, whatever follows
    kTruncated,  ///< the bytes end inside what may become a character
  };
  std::size_t size = 0;  ///< bytes, at least 1
  Kind kind = Kind::kValid;
};

/// `bytes` must not be empty. Overlong forms, surrogates and values past U+10FFFF are invalid.
/// Invalid parts are cut as Unicode's "substitution of maximal subparts" does (Unicode 15, section 3.9).
Utf8Step next_utf8(std::string_view bytes);

/// Offset of the first byte that is not part of a whole character; nothing when all of `text` is valid.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// Bytes (0 to 3) at the end of `text` that may become a character and are not one yet.
std::size_t unfinished_utf8(std::string_view text);

/// Appends `bytes` to `text`, each invalid part as one U+FFFD, and returns how many bytes it used. It leaves
/// only a truncated character at the end, at most three bytes.
std::size_t append_as_utf8(std::string_view bytes, std::string& text);

/// What stands for invalid bytes: U+FFFD.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace baleen
