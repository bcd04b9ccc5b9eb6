/// The product's Scheduler, every token of it, over an engine whose steps take virtual time: what the
/// simulation must agree with.
#pragma once

#include "simulator/serving/serving_simulation.h"

namespace baleen {

/// As simulate_serving with one pool, for small workloads. Not all of the result: `requests` (of those turned
/// away only that they were), `gaps`, and the steps and preemptions of the server.
[[nodiscard]] ServingResult serve_with_scheduler(const ServingOptions& options, RequestSource& workload);

}  // namespace baleen
