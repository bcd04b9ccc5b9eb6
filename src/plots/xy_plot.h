/// A plot of lines and points over two axes, as SVG. Colours come from the page: every mark has a class.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plots/axis.h"

namespace baleen {

struct XyPoint {
  double x = 0;
  double y = 0;
};

struct PlotMark {
  XyPoint at;
  std::string style;  ///< classes
  std::string title;  ///< what hovering shows
  std::string label;  ///< beside it, if there is room
  double radius = 4;  ///< pixels
};

struct PlotLine {
  std::vector<XyPoint> points;  ///< sorted by rising x
  std::string style;
  std::string label;  ///< beside the plot where it reaches its right end, otherwise along it
  std::string title;
};

class XyPlot {
 public:
  XyPlot(Axis x, Axis y) : x_(std::move(x)), y_(std::move(y)) {}

  /// Marks outside of the axes are left out; labels that would meet move away, the later ones first.
  void add(PlotMark mark) { marks_.push_back(std::move(mark)); }
  void add(PlotLine line) { lines_.push_back(std::move(line)); }
  /// Many small ones without words.
  void add_dots(const std::vector<XyPoint>& points) {
    dots_.insert(dots_.end(), points.begin(), points.end());
  }
  /// A thin line across the plot at an x.
  void mark_x(double value, std::string label) { rules_.emplace_back(value, std::move(label)); }

  [[nodiscard]] const Axis& x() const { return x_; }
  [[nodiscard]] const Axis& y() const { return y_; }
  /// `name` says what it is to those who do not see it.
  [[nodiscard]] std::string svg(std::string_view name) const;

 private:
  Axis x_;
  Axis y_;
  std::vector<PlotMark> marks_;
  std::vector<PlotLine> lines_;
  std::vector<XyPoint> dots_;
  std::vector<std::pair<double, std::string>> rules_;
};

}  // namespace baleen
