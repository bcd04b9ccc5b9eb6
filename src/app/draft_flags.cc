#include "app/draft_flags.h"

#include "app/option_ranges.h"
#include "app/options.h"
#include "base/error.h"
#include "drafts/draft_head.h"
#include "engine/model_engine.h"

namespace baleen {

void DraftFlags::add_schedule_to(Options& command) {
  command.choice(
      "--draft-schedule", schedule, {"on", "off"},
      "on: as many drafts of each reply as raise the tokens a second, by what was accepted and what "
      "steps took; off: always as many as there is room for");
}

void DraftFlags::add_threshold_to(Options& command) {
  command.real("--draft-threshold", threshold, kShareRange,
               "Check no draft, and none behind it, that the draft head gives less than this chance of being "
               "accepted; 0: all. For heads that say so");
}

void DraftFlags::apply_to(SchedulerOptions& options) const {
  options.draft_schedule = schedule == "on";
  options.draft_threshold = threshold;
}

void DraftFlags::check(const ModelEngine& engine) const {
  if (threshold == 0 || engine.limits().tells_confidence) return;
  if (engine.limits().max_draft_tokens == 0)
    fail("--draft-threshold {}: nothing is drafted; --speculate says how many tokens are", threshold);
  fail("--draft-threshold {}: the {} does not say how sure it is of a draft; leave it out", threshold,
       engine.options().draft_head->title);
}

}  // namespace baleen
