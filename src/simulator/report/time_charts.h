/// Where a step's time goes: by operation, by part of the model, within a layer; and what fills a device's
/// memory.
#pragma once

#include "plots/html_page.h"
#include "simulator/report/step_report.h"

namespace baleen {

/// A bar for each operation, in pieces by where in the model it runs.
[[nodiscard]] Figure operations_figure(const StepReport& report);
/// A bar for each part of the model, in pieces by what bounds them; messages between stages and the host
/// beside.
[[nodiscard]] Figure places_figure(const StepReport& report);
/// A bar for each stage of the pipeline, in pieces by what the memory is for.
[[nodiscard]] Figure memory_figure(const StepReport& report);

}  // namespace baleen
