#include "scheduler/step_runner.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"

namespace baleen {

StepRunner::~StepRunner() {
  try {
    for (; !under_way_.empty(); under_way_.pop_front()) static_cast<void>(engine_.collect());
  } catch (const std::exception&) {
    // The device is lost: there is nothing to wait for.
  }
}

void StepRunner::run() {
  if (under_way()) {
    if (runs_ahead_) begin_ahead();
    collect();
  }
  if (!under_way()) begin(parts_of(planner_.plan()));
  taker_.publish();
  if (board_.empty()) time_.rest();
}

StepRunner::Parts StepRunner::parts_of(std::span<const PlannedPart> plan) const {
  Parts parts;
  for (const PlannedPart& part : plan) {
    parts.emplace_back(static_cast<Job&>(*part.contender), part.share,
                       engine_.length(*part.contender->sequence));
  }
  return parts;
}

void StepRunner::begin(Parts parts) {
  if (parts.empty()) return;
  time_.begin(clock_());
  if (queues_) {
    for (JobStep& part : parts) part.num_drafts = part.share.num_drafts;
    if (let_engine_choose(parts) && queue(parts)) return;
    for (JobStep& part : parts) part.num_drafts = 0;
  }
  run_and_wait(parts);
}

void StepRunner::run_and_wait(Parts& parts) {
  taker_.publish();  // clients need not wait for the step
  draft(parts);
  static_cast<void>(let_engine_choose(parts));
  std::vector<StepInput> inputs;
  for (const JobStep& part : parts) inputs.push_back(part.input());
  const Result<StepOutput> output = engine_.step(inputs);
  time_.end(clock_());
  take(parts, output);
}

void StepRunner::begin_ahead() {
  Parts parts = parts_of(planner_.plan_ahead());
  // What fails here is seen again, and reported, when the step is planned behind the one under way.
  if (!parts.empty() && let_engine_choose(parts)) static_cast<void>(queue(parts));
}

bool StepRunner::queue(Parts& parts) {
  std::vector<StepInput> inputs;
  for (const JobStep& part : parts) inputs.push_back(part.queued_input());
  if (engine_.queue(inputs)) return false;
  for (const JobStep& part : parts) {
    Job& job = job_of(part);
    job.num_pending += part.num_rows();
    job.count_tokens();
  }
  under_way_.push_back(std::move(parts));
  return true;
}

void StepRunner::collect() {
  Parts parts = std::move(under_way_.front());
  under_way_.pop_front();
  const Result<StepOutput> output = engine_.collect();
  if (!under_way()) time_.end(clock_());
  for (const JobStep& part : parts) {
    Job* const job = board_.find(part.id, part.sequence);
    if (job != nullptr) job->num_pending -= part.num_rows();
  }
  take(parts, output);
}

bool StepRunner::let_engine_choose(Parts& parts) const {
  if (!chooses_) return false;
  bool all = true;
  for (JobStep& part : parts) all = part.let_engine_choose(job_of(part)) && all;
  return all;
}

void StepRunner::take(Parts& parts, const Result<StepOutput>& output) {
  ++stats_.steps;
  std::int64_t row = 0;
  std::size_t num_chosen = 0, num_drafted = 0;
  for (JobStep& part : parts) {
    PartRows rows;
    if (output && !output.value().drafted.empty()) {
      const auto own = output.value().drafted.subspan(num_drafted, static_cast<std::size_t>(part.num_drafts));
      part.drafts.tokens.assign(own.begin(), own.end());
      num_drafted += own.size();
    }
    if (part.num_rows() == 0) {
      // A chunk before the prompt's end: the step may have no logits at all.
    } else if (output && part.draws.empty()) {
      rows.logits = output.value().logits.slice(row, row + part.num_rows());
      row += part.num_rows();
    } else if (output) {
      rows.chosen = output.value().chosen.subspan(num_chosen, part.draws.size());
      num_chosen += part.draws.size();
    }
    Job* const job = board_.find(part.id, part.sequence);
    if (job == nullptr) continue;  // ended or preempted meanwhile
    if (output) {
      taker_.take(*job, part, rows);
    } else {
      // What could be wrong with one request alone was refused before; what is left spoils every sequence of
      // the step.
      board_.end_failed(*job, output.error());
    }
  }
}

void StepRunner::draft(Parts& parts) {
  std::vector<JobStep*> chains;
  for (JobStep& part : parts) {
    if (part.share.num_drafts == 0) continue;
    part.drafts = job_of(part).reply->begin_drafts();
    chains.push_back(&part);
  }
  std::vector<DraftInput> inputs;
  for (std::int64_t depth = 0; !chains.empty(); ++depth) {
    inputs.clear();
    for (const JobStep* part : chains) {
      const TokenId newest = depth == 0 ? part->fed.back() : part->drafts.tokens.back();
      DraftInput& input = inputs.emplace_back(DraftInput{part->sequence, newest});
      if (chooses_) input.draw = job_of(*part).reply->draw_row(part->drafts.tokens.size());
    }
    const Result<DraftOutput> output = engine_.draft(inputs, depth);
    if (!output) break;  // the step goes on with the drafts it has
    const auto& [logits, chosen, confidence] = output.value();
    std::vector<JobStep*> unfinished;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      JobStep& part = *chains[i];
      Reply& reply = *job_of(part).reply;
      const bool extended = chosen.empty()
                                ? reply.extend(part.drafts, logits.row(static_cast<std::int64_t>(i)))
                                : reply.extend(part.drafts, chosen[i]);
      if (!extended) continue;
      if (depth + 1 < part.share.num_drafts) unfinished.push_back(&part);
    }
    chains = std::move(unfinished);
  }
  for (JobStep& part : parts) part.feed_drafts();
}

}  // namespace baleen
