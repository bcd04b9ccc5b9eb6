/// A step of training as a page.
#pragma once

#include <string>

#include "plots/html_page.h"
#include "trainer/estimate/train_estimate.h"

namespace baleen {

/// What was estimated.
struct TrainingReport {
  const SimulatedModel& model;
  const ParallelPlan& plan;
  const TrainingLoad& load;
  const DeviceProfile& device;
  const TrainEstimate& estimate;
};

/// A page in one file: parts of a step and of a device's memory as plots and tables.
[[nodiscard]] std::string training_html(const TrainingReport& report, const Provenance& provenance);

}  // namespace baleen
