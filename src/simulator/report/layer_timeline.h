/// The operations of one layer of each kind on a time line.
#pragma once

#include "plots/html_page.h"
#include "simulator/report/step_report.h"

namespace baleen {

/// For each kind of layer that the step has its middle layer, a row for each operation in their order; all on
/// one scale.
[[nodiscard]] std::vector<Figure> layer_figures(const StepReport& report);

}  // namespace baleen
