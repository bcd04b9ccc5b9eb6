/// Training runs as a page: several beside each other, for comparisons.
#pragma once

#include <string>
#include <vector>

#include "plots/html_page.h"
#include "trainer/report/run_log.h"

namespace baleen {

/// Curves of loss, held-out loss, gradient norm, learning rate and speed, all runs in one picture each; loads
/// of experts, a picture a run; the newest continuations. At least one run.
[[nodiscard]] std::string runs_html(const std::vector<RunLog>& runs, const Provenance& provenance);

}  // namespace baleen
