/// A figure of series over the steps of training runs.
#pragma once

#include <string>
#include <vector>

#include "plots/html_page.h"
#include "trainer/report/run_log.h"

namespace baleen {

struct Curve {
  std::string name;
  const Series& series;
};

struct CurvesText {
  std::string id;
  std::string title;
  std::string caption;
  std::string unit;  ///< unit of the values, the label of their axis
};

/// One line a curve, each in its colour, and the points as a table. Of a long series neighbours are averaged,
/// so that a curve has at most 400 points.
[[nodiscard]] Figure curves_figure(CurvesText text, const std::vector<Curve>& curves);

}  // namespace baleen
