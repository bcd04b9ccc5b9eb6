/// Text within HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// `text` as content or as the value of a quoted attribute. Characters that HTML forbids become U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);

/// A coordinate or an exact figure as browsers read it: the shortest decimals that give `value` back.
[[nodiscard]] std::string number_text(double value);

/// Width in pixels that `text` takes at `font_pixels` in the widest of the page's fonts, or a little less.
[[nodiscard]] double text_width(std::string_view text, double font_pixels);

}  // namespace baleen
