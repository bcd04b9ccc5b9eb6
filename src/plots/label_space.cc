#include "plots/label_space.h"

#include <algorithm>
#include <cmath>

#include "plots/markup.h"

namespace baleen {
namespace {

constexpr double kAscent = 0.8;  ///< share of the font's size above the baseline
constexpr double kDescent = 0.25;

Rect text_box(const TextSpot& spot, std::string_view text, double font_pixels) {
  const double width = text_width(text, font_pixels);
  const double left = spot.anchor == "start" ? spot.x
                      : spot.anchor == "end" ? spot.x - width
                                             : spot.x - width / 2;
  return {left, spot.y - kAscent * font_pixels, left + width, spot.y + kDescent * font_pixels};
}

}  // namespace

void LabelSpace::occupy_line(double x1, double y1, double x2, double y2) {
  constexpr double kPiece = 6, kHalfWidth = 1.5;
  const double pieces = std::max(1.0, std::ceil(std::hypot(x2 - x1, y2 - y1) / kPiece));
  for (double i = 0; i < pieces; ++i) {
    const double xa = x1 + (x2 - x1) * i / pieces, xb = x1 + (x2 - x1) * (i + 1) / pieces;
    const double ya = y1 + (y2 - y1) * i / pieces, yb = y1 + (y2 - y1) * (i + 1) / pieces;
    occupy({std::min(xa, xb) - kHalfWidth, std::min(ya, yb) - kHalfWidth, std::max(xa, xb) + kHalfWidth,
            std::max(ya, yb) + kHalfWidth});
  }
}

std::optional<TextSpot> LabelSpace::place(std::string_view text, double font_pixels,
                                          const std::vector<TextSpot>& spots) {
  for (const TextSpot& spot : spots) {
    const Rect box = text_box(spot, text, font_pixels);
    if (!bounds_.holds(box)) continue;
    if (std::ranges::any_of(taken_, [&](const Rect& other) { return box.overlaps(other); })) continue;
    occupy(box);
    return spot;
  }
  return std::nullopt;
}

std::vector<TextSpot> spots_around(double x, double y, double radius, double font_pixels) {
  const double gap = radius + 3, middle = y + 0.32 * font_pixels;
  const double above = y - gap - 1, below = y + gap + kAscent * font_pixels;
  return {{x + gap, middle, "start"}, {x - gap, middle, "end"},  {x, above, "middle"},
          {x, below, "middle"},       {x + gap, above, "start"}, {x - gap, above, "end"},
          {x + gap, below, "start"},  {x - gap, below, "end"}};
}

}  // namespace baleen
