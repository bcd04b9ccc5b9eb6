/// Each operation's arithmetic intensity against the rate it reaches, under the device's ceilings.
#pragma once

#include <set>

#include "plots/html_page.h"
#include "simulator/report/step_report.h"

namespace baleen {

/// Class of a bound's colour on pages.
[[nodiscard]] std::string_view bound_style(Bound bound);
/// Of those that occur.
[[nodiscard]] std::vector<LegendEntry> bound_legend(const std::set<Bound>& bounds);

[[nodiscard]] Figure roofline_figure(const StepReport& report);

}  // namespace baleen
