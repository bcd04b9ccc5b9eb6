#include "trainer/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plots/xy_plot.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxPoints = 400;
constexpr std::size_t kMaxMarked = 40;  ///< series of at most so many points show each
constexpr std::array<const char*, 9> kStyles{"c-compute", "c-memory", "c-csa",     "c-communication", "c-hca",
                                             "c-latency", "c-window", "c-outside", "c-draft"};

/// Equally many neighbours become one point, their mean.
std::vector<XyPoint> thinned(const Series& series) {
  const std::size_t together = (series.size() + kMaxPoints - 1) / kMaxPoints;
  std::vector<XyPoint> points;
  for (std::size_t begin = 0; begin < series.size(); begin += together) {
    const std::size_t end = std::min(series.size(), begin + together);
    XyPoint mean;
    for (std::size_t i = begin; i < end; ++i) {
      mean.x += series[i].step / static_cast<double>(end - begin);
      mean.y += series[i].value / static_cast<double>(end - begin);
    }
    points.push_back(mean);
  }
  return points;
}

}  // namespace

Figure curves_figure(CurvesText text, const std::vector<Curve>& curves) {
  Figure figure{.id = text.id, .title = text.title, .caption = std::move(text.caption)};
  Table table{.id = text.id + "-figures",
              .caption = text.title,
              .columns = {{.name = "curve", .is_figure = false}, {"step"}, {text.unit}}};
  double last_step = 0, least = 0, most = 0;
  std::vector<std::vector<XyPoint>> points;
  for (const Curve& curve : curves) {
    points.push_back(thinned(curve.series));
    for (const XyPoint& point : points.back()) {
      last_step = std::max(last_step, point.x);
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  XyPlot plot(Axis(Scale::kLinear, 0, last_step, "step", number),
              Axis(Scale::kLinear, least, most, text.unit, number));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    if (points[i].empty()) continue;
    const std::string style = kStyles.at(i % kStyles.size());
    figure.legend.push_back({style, curves[i].name});
    for (const XyPoint& point : points[i]) {
      const std::string what = fmt::format("{}, step {:.0f}: {:.4g}", curves[i].name, point.x, point.y);
      if (points[i].size() <= kMaxMarked) plot.add(PlotMark{point, style, what, "", 2.5});
      table.rows.push_back({{curves[i].name, {}},
                            {fmt::format("{:.0f}", point.x), point.x},
                            {fmt::format("{:.4g}", point.y), point.y}});
    }
    plot.add(PlotLine{std::move(points[i]), style, "", curves[i].name});
  }
  figure.svg = plot.svg(text.title);
  figure.table = std::move(table);
  return figure;
}

}  // namespace baleen
