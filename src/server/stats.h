/// The state of the server as JSON: pools, tree, queue, time per operation.
#pragma once

#include <string>

#include "http/http_server.h"
#include "scheduler/scheduler.h"
#include "server/counter_history.h"
#include "server/engine_view.h"
#include "server/served_model.h"

namespace baleen {

/// The body of `GET /stats`; docs/server.md lists its fields. `history` is null when it was not requested;
/// `prefix_text`: with text of prompts where they part from what is cached.
[[nodiscard]] std::string stats_json(const ServedModel& model, const SchedulerStats& scheduler,
                                     const EngineView& engine, const HttpStats& http, double uptime_seconds,
                                     const CounterHistory* history = nullptr, bool prefix_text = false);

/// The body of `GET /experts`, a file that ranks take their maps from.
[[nodiscard]] std::string experts_json(const EngineView& engine);

}  // namespace baleen
