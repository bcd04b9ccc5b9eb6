/// What operators scrape: `GET /metrics` in Prometheus' text format.
#pragma once

#include <memory>
#include <string>

#include "http/http_server.h"
#include "scheduler/scheduler.h"
#include "server/engine_view.h"
#include "server/served_request.h"

namespace baleen {

/// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Counts a finished request: its status, times and speculation.
  void observe(const RequestReport& report);

  /// The page to scrape: the histograms above, and the counters of the parts as they stand.
  [[nodiscard]] std::string text(const SchedulerStats& scheduler, const EngineView& engine,
                                 const HttpStats& http) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace baleen
