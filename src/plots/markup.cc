#include "plots/markup.h"

#include <fmt/format.h>

namespace baleen {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default: {
        const auto code = static_cast<unsigned char>(c);
        const bool forbidden = (code < 0x20 && c != '\t' && c != '\n') || code == 0x7f;
        forbidden ? safe += "\xEF\xBF\xBD" : safe += c;
      }
    }
  }
  return safe;
}

std::string number_text(double value) { return fmt::format("{}", value); }

double text_width(std::string_view text, double font_pixels) {
  /// DejaVu Sans has this, the widest of common interface fonts; a share of the font's size.
  constexpr double kMeanAdvance = 0.62;
  double characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xc0) == 0x80 ? 0 : 1;
  return kMeanAdvance * font_pixels * characters;
}

}  // namespace baleen
