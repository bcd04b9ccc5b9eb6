/// A simulation of serving as a page.
#pragma once

#include <string>

#include "plots/html_page.h"
#include "simulator/cost/step_estimate.h"
#include "simulator/serving/serving_figures.h"

namespace baleen {

/// What was simulated. Figures are of one data-parallel group with its share of the load.
struct ServingReport {
  const SimulatedModel& model;
  const ParallelPlan& plan;
  const DeviceProfile& device;
  const ServingFigures& figures;
  std::int64_t num_devices = 0;
  double tokens_per_second_per_device = 0;  ///< prompts count, too
  std::string setup;                        ///< a sentence: sequences, tokens of a step, pages
};

/// A page in one file: what clients feel, and what the servers do, as plots and tables.
[[nodiscard]] std::string serving_html(const ServingReport& report, const Provenance& provenance);

}  // namespace baleen
