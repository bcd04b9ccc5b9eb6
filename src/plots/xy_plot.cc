#include "plots/xy_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plots/label_space.h"
#include "plots/markup.h"

namespace baleen {
namespace {

// Pixels of the drawing; the page scales it.
constexpr double kHeight = 400;
constexpr double kTop = 14, kRight = 18, kBottom = 48, kTickGap = 7;
constexpr double kLineHeight = 14;  ///< between words below each other
constexpr int kTicksX = 7, kTicksY = 7;

/// The drawing on its way: where values are in pixels, and where words may go.
class XyDrawing {
 public:
  /// `margin` pixels are kept free to the right of the plot.
  XyDrawing(const Axis& x, const Axis& y, double margin)
      : x_(x), y_(y), right_(kFigureWidth - kRight - margin), space_(area()) {
    double widest = 0;
    for (const Tick& tick : y_.ticks(kTicksY)) widest = std::max(widest, text_width(tick.text, kFigureFont));
    constexpr double kAxisName = 24;
    left_ = kAxisName + widest + kTickGap;
    space_ = LabelSpace(area());
  }

  [[nodiscard]] double px(double value) const { return left_ + x_.share_of(value) * (right_ - left_); }
  [[nodiscard]] double py(double value) const {
    return kHeight - kBottom - y_.share_of(value) * (kHeight - kBottom - kTop);
  }
  [[nodiscard]] bool shows(const XyPoint& point) const { return x_.spans(point.x) && y_.spans(point.y); }

  void draw_axes() {
    const Rect plot = area();
    for (const Tick& tick : y_.ticks(kTicksY)) {
      const double y = py(tick.value);
      text_ += fmt::format(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)",
                           plot.left, y, plot.right, y);
      words("tick", plot.left - kTickGap, y + 0.35 * kFigureFont, "end", tick.text);
    }
    double words_end = 0;
    for (const Tick& tick : x_.ticks(kTicksX)) {
      const double x = px(tick.value);
      text_ += fmt::format(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", x,
                           plot.top, x, plot.bottom);
      // Words at the ends stay within the drawing, and words that would meet the one before are left out.
      const double half = text_width(tick.text, kFigureFont) / 2, at = std::min(x, kFigureWidth - half);
      if (at - half < words_end) continue;
      words("tick", at, plot.bottom + 18, "middle", tick.text);
      words_end = at + half;
    }
    text_ += fmt::format(R"(<rect class="frame" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)",
                         plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
    words("axis", (plot.left + plot.right) / 2, kHeight - 8, "middle", x_.label());
    const double middle = (plot.top + plot.bottom) / 2;
    text_ += fmt::format(
        R"svg(<text class="axis" text-anchor="middle" transform="translate(13 {:.1f}) rotate(-90)">{}</text>)svg",
        middle, escaped(y_.label()));
  }

  void draw_rule(double value, const std::string& label) {
    if (!x_.spans(value)) return;
    const Rect plot = area();
    const double x = px(value);
    text_ += fmt::format(R"(<line class="rule" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", x,
                         plot.top, x, plot.bottom);
    space_.occupy_line(x, plot.top, x, plot.bottom);
    const double y = plot.bottom - 6, high = plot.top + kFigureFont + 2;
    place(label, "note",
          {{x + 5, y, "start"}, {x - 5, y, "end"}, {x + 5, high, "start"}, {x - 5, high, "end"}});
  }

  void draw_line(const PlotLine& line) {
    text_ += fmt::format(R"(<polyline class="line {}" points=")", escaped(line.style));
    for (const XyPoint& point : line.points) text_ += fmt::format("{:.1f},{:.1f} ", px(point.x), py(point.y));
    text_ += fmt::format(R"("><title>{}</title></polyline>)",
                         escaped(line.title.empty() ? line.label : line.title));
    for (std::size_t i = 1; i < line.points.size(); ++i) {
      const XyPoint &a = line.points[i - 1], &b = line.points[i];
      space_.occupy_line(px(a.x), py(a.y), px(b.x), py(b.y));
    }
  }

  /// Along a line that ends within the plot.
  void label_line(const PlotLine& line) {
    if (line.label.empty() || line.points.size() < 2) return;
    std::vector<TextSpot> spots;
    constexpr double kStep = 10, kGap = 5;
    for (std::size_t i = line.points.size() - 1; i > 0; --i) {
      const double xa = px(line.points[i - 1].x), xb = px(line.points[i].x);
      const double ya = py(line.points[i - 1].y), yb = py(line.points[i].y);
      for (double x = xb - kGap; x > xa; x -= kStep) {
        const double y = ya + (yb - ya) * (x - xa) / (xb - xa);
        spots.push_back({x, y - kGap, "end"});
        spots.push_back({x, y + kGap + 0.8 * kFigureFont, "start"});
      }
    }
    place(line.label, "label " + line.style, spots);
  }

  /// To the right of the plot, each at its line's end, or a little beside where others are too near.
  void label_ends(std::vector<const PlotLine*> lines) {
    std::ranges::sort(lines, std::greater(), [](const PlotLine* line) { return line->points.back().y; });
    std::vector<double> heights;
    for (const PlotLine* line : lines) {
      const double wanted = py(line->points.back().y) + 0.35 * kFigureFont;
      heights.push_back(heights.empty() ? wanted : std::max(wanted, heights.back() + kLineHeight));
    }
    double lowest = kHeight - kBottom;
    for (std::size_t i = lines.size(); i-- > 0; lowest = heights[i] - kLineHeight) {
      heights[i] = std::min(heights[i], lowest);
      words("label " + lines[i]->style, right_ + kTickGap, heights[i], "start", lines[i]->label);
    }
  }

  void draw_dots(const std::vector<XyPoint>& points) {
    if (points.empty()) return;
    text_ += R"(<path class="dots" d=")";
    for (const XyPoint& point : points) {
      if (shows(point)) text_ += fmt::format("M{:.1f} {:.1f}h0", px(point.x), py(point.y));
    }
    text_ += R"("/>)";
  }

  void draw_mark(const PlotMark& mark) {
    if (!shows(mark.at)) return;
    const double x = px(mark.at.x), y = py(mark.at.y);
    text_ += fmt::format(
        R"(<circle class="mark {}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>)",
        escaped(mark.style), x, y, mark.radius, escaped(mark.title));
    space_.occupy({x - mark.radius, y - mark.radius, x + mark.radius, y + mark.radius});
  }
  /// Beside it, or further away with a line to it.
  void label_mark(const PlotMark& mark) {
    if (mark.label.empty() || !shows(mark.at)) return;
    const double x = px(mark.at.x), y = py(mark.at.y);
    if (place(mark.label, "label", spots_around(x, y, mark.radius, kFigureFont))) return;
    for (const double distance : {14.0, 28.0, 44.0, 62.0}) {
      const std::vector<TextSpot> spots = spots_around(x, y, mark.radius + distance, kFigureFont);
      const auto spot = space_.place(mark.label, kFigureFont, spots);
      if (!spot) continue;
      const double to_y = spot->y - 0.32 * kFigureFont;
      const double to_x = spot->anchor == "start" ? spot->x - 2
                          : spot->anchor == "end" ? spot->x + 2
                                                  : spot->x;
      const double end_y = spot->anchor != "middle" ? to_y : to_y + (to_y < y ? 0.6 : -0.5) * kFigureFont;
      text_ += fmt::format(R"(<line class="leader" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", x, y,
                           to_x, end_y);
      words("label", spot->x, spot->y, spot->anchor, mark.label);
      return;
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] Rect area() const { return {left_, kTop, right_, kHeight - kBottom}; }

  void words(std::string_view style, double x, double y, std::string_view anchor, std::string_view what) {
    text_ += fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)",
                         escaped(style), x, y, anchor, escaped(what));
  }
  bool place(const std::string& what, const std::string& style, const std::vector<TextSpot>& spots) {
    const auto spot = space_.place(what, kFigureFont, spots);
    if (spot) words(style, spot->x, spot->y, spot->anchor, what);
    return spot.has_value();
  }

  const Axis& x_;
  const Axis& y_;
  double left_ = 0;
  double right_;
  LabelSpace space_;
  std::string text_;
};

}  // namespace

std::string XyPlot::svg(std::string_view name) const {
  std::vector<const PlotLine*> ending;  // at the plot's right end: their names go beside it
  double margin = 0;
  for (const PlotLine& line : lines_) {
    if (line.label.empty() || line.points.back().x < x_.high()) continue;
    ending.push_back(&line);
    margin = std::max(margin, text_width(line.label, kFigureFont));
  }
  XyDrawing drawing(x_, y_, margin);
  drawing.draw_axes();
  for (const auto& [value, label] : rules_) drawing.draw_rule(value, label);
  drawing.draw_dots(dots_);
  for (const PlotLine& line : lines_) drawing.draw_line(line);
  // The first marks lie on top, and all words avoid all marks.
  for (auto mark = marks_.rbegin(); mark != marks_.rend(); ++mark) drawing.draw_mark(*mark);
  for (const PlotLine& line : lines_) {
    if (std::ranges::find(ending, &line) == ending.end()) drawing.label_line(line);
  }
  drawing.label_ends(ending);
  for (const PlotMark& mark : marks_) drawing.label_mark(mark);
  return fmt::format(R"(<svg class="xy" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>)",
                     kFigureWidth, kHeight, escaped(name), drawing.text());
}

}  // namespace baleen
