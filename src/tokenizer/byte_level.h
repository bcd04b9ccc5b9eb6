/// The byte-level alphabet of GPT-2 and its successors: each of the 256 bytes written as one printable
/// character, so that a vocabulary of byte strings can live in JSON. Space is "Ġ", newline "Ċ", printable
/// ASCII itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baleen {

/// The character of a byte, in UTF-8.
std::string byte_level_character(std::uint8_t byte);

/// The bytes that a token of the file stands for; nothing when some character is outside the alphabet.
std::optional<std::string> byte_level_decode(std::string_view token);

}  // namespace baleen
