/// A search's result as a page.
#pragma once

#include <string>

#include "plots/html_page.h"
#include "simulator/search/plan_search.h"

namespace baleen {

/// What was searched and found.
struct SearchReport {
  const SimulatedModel& model;
  const DeviceProfile& device;
  const SearchOptions& options;
  const SearchResult& result;
};

/// A page in one file: candidates and their Pareto front as plots and tables, `num_rows` of the ranking, what
/// was left out.
[[nodiscard]] std::string search_html(const SearchReport& report, std::int64_t num_rows,
                                      const Provenance& provenance);

/// Its instances and their plans: "2 x 4 devices: tp 4, dp 1, ep 4"
[[nodiscard]] std::string to_text(const DeploymentCandidate& candidate);

}  // namespace baleen
