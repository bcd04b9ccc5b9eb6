#include "log/escape.h"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.h"

namespace baleen {
namespace {

/// Whether a valid character of several bytes moves the cursor, ends a line or reorders what stands around
/// it: U+0080 to U+009F, U+061C, U+200E and U+200F, U+2028 to U+202E, U+2066 to U+2069, U+FEFF.
bool is_hidden_control(std::string_view character) {
  if (character.size() == 2) {
    return (character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0) ||
           character == "\xD8\x9C";
  }
  if (character == "\xEF\xBB\xBF") return true;
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const auto last = static_cast<unsigned char>(character[2]);
  if (character[1] == '\x80') return last == 0x8E || last == 0x8F || (last >= 0xA8 && last <= 0xAE);
  return character[1] == '\x81' && last >= 0xA6 && last <= 0xA9;
}

bool is_plain(std::string_view character, Utf8Step::Kind kind) {
  if (kind != Utf8Step::Kind::kValid) return false;
  if (character.size() > 1) return !is_hidden_control(character);
  const auto byte = static_cast<unsigned char>(character[0]);
  return byte >= 0x20 && byte != 0x7F;
}

void append_bytes(std::string& shown, std::string_view character) {
  for (const char byte : character)
    fmt::format_to(std::back_inserter(shown), "\\x{:02X}", static_cast<unsigned char>(byte));
}

/// U+0080 to U+009F, which some terminals take for commands.
bool is_c1_control(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

std::string escaped_text(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    const std::string_view character = text.substr(0, step.size);
    text.remove_prefix(step.size);
    const bool is_text =
        step.kind == Utf8Step::Kind::kValid && character.size() > 1 && !is_c1_control(character);
    if (is_text || is_plain(character, step.kind) || character == "\n" || character == "\t") {
      shown += character;
    } else {
      append_bytes(shown, character);
    }
  }
  return shown;
}

std::string escaped_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    const std::string_view character = text.substr(0, step.size);
    text.remove_prefix(step.size);
    if (is_plain(character, step.kind)) {
      line += character;
    } else if (character == "\n") {
      line += "\\n";
    } else if (character == "\r") {
      line += "\\r";
    } else if (character == "\t") {
      line += "\\t";
    } else {
      append_bytes(line, character);
    }
  }
  return line;
}

}  // namespace baleen
