/// `baleen plan --explain`: which parallel plan the simulator recommends, and why not the others.
#pragma once

#include "simulator/cost/step_estimate.h"

namespace baleen {

/// Prints the recommended plan of `num_devices` as options, a row for every other one with its reason, and
/// what was left out. `bounded_replay` as in `ServingLoad`. Throws `Error` where none fits.
void explain_plans(const SimulatedModel& model, const DeviceProfile& device, std::int64_t num_devices,
                   std::int64_t bounded_replay);

}  // namespace baleen
