/// Where there is still room for words on a drawing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

/// In pixels, y downwards.
struct Rect {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  [[nodiscard]] bool overlaps(const Rect& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
  [[nodiscard]] bool holds(const Rect& other) const {
    return left <= other.left && top <= other.top && right >= other.right && bottom >= other.bottom;
  }
};

/// Where a text stands: its baseline, and which end `x` is ("start", "middle", "end").
struct TextSpot {
  double x = 0;
  double y = 0;
  std::string_view anchor = "start";
};

class LabelSpace {
 public:
  explicit LabelSpace(Rect bounds) : bounds_(bounds) {}

  void occupy(const Rect& rect) { taken_.push_back(rect); }
  /// Of what a line from one point to another covers.
  void occupy_line(double x1, double y1, double x2, double y2);
  /// The first of `spots` where `text` meets nothing and stays within bounds; takes its room.
  std::optional<TextSpot> place(std::string_view text, double font_pixels,
                                const std::vector<TextSpot>& spots);

 private:
  Rect bounds_;
  std::vector<Rect> taken_;
};

/// Beside, above and below a mark of `radius` around (x, y).
[[nodiscard]] std::vector<TextSpot> spots_around(double x, double y, double radius, double font_pixels);

}  // namespace baleen
