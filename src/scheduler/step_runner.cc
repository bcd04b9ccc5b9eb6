#include "scheduler/step_runner.h"

#include <fmt/format.h>

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
  if (!under_way()) {
    Parts parts = parts_of(planner_.plan());
    begin({std::move(parts), planner_.decision()});
  }
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

void StepRunner::begin(Step step) {
  Parts& parts = step.parts;
  if (parts.empty()) return;
  time_.begin(clock_());
  const bool has_drafts =
      std::ranges::any_of(parts, [](const JobStep& part) { return part.share.num_drafts > 0; });
  if (queues_ && !(has_drafts && draft_threshold_ > 0)) {
    for (JobStep& part : parts) part.num_drafts = part.share.num_drafts;
    if (let_engine_choose(parts) && queue(step)) return;
    for (JobStep& part : parts) part.num_drafts = 0;
  }
  run_and_wait(step);
}

void StepRunner::run_and_wait(Step& step) {
  taker_.publish();  // clients need not wait for the step
  draft(step);
  static_cast<void>(let_engine_choose(step.parts));
  std::vector<StepInput> inputs;
  for (const JobStep& part : step.parts) inputs.push_back(part.input());
  const Result<StepOutput> output = engine_.step(inputs);
  const double now = clock_();
  time_.end(now);
  take(step, output, time_.collected(now));
}

void StepRunner::begin_ahead() {
  const auto has_drafts = [](const JobStep& part) { return part.num_drafts > 0; };
  if (std::ranges::any_of(under_way_.back().parts, has_drafts)) return;
  Parts parts = parts_of(planner_.plan_ahead());
  // What fails here is seen again, and reported, when the step is planned behind the one under way.
  if (parts.empty() || !let_engine_choose(parts)) return;
  Step step{std::move(parts), planner_.decision()};
  static_cast<void>(queue(step));
}

bool StepRunner::queue(Step& step) {
  std::vector<StepInput> inputs;
  for (const JobStep& part : step.parts) inputs.push_back(part.queued_input());
  if (engine_.queue(inputs)) return false;
  for (const JobStep& part : step.parts) {
    Job& job = job_of(part);
    job.num_pending += part.num_rows();
    job.count_tokens();
  }
  under_way_.push_back(std::move(step));
  return true;
}

void StepRunner::collect() {
  Step step = std::move(under_way_.front());
  under_way_.pop_front();
  const Result<StepOutput> output = engine_.collect();
  const double now = clock_();
  if (!under_way()) time_.end(now);
  for (const JobStep& part : step.parts) {
    Job* const job = board_.find(part.id, part.sequence);
    if (job != nullptr) job->num_pending -= part.num_rows();
  }
  take(step, output, time_.collected(now));
}

bool StepRunner::let_engine_choose(Parts& parts) const {
  if (!chooses_) return false;
  bool all = true;
  for (JobStep& part : parts) all = part.let_engine_choose(job_of(part)) && all;
  return all;
}

void StepRunner::take(Step& step, const Result<StepOutput>& output, double seconds) {
  ++stats_.steps;
  const std::int64_t accepted_before = stats_.accepted_tokens;
  std::int64_t row = 0, num_drafts = 0;
  std::size_t num_chosen = 0, num_drafted = 0;
  for (JobStep& part : step.parts) {
    PartRows rows;
    num_drafts += part.num_drafts;
    if (output && !output.value().drafted.empty()) {
      const auto count = static_cast<std::size_t>(part.num_drafts);
      const auto own = output.value().drafted.subspan(num_drafted, count);
      part.drafts.tokens.assign(own.begin(), own.end());
      if (!output.value().confidence.empty()) {
        const auto stated = output.value().confidence.subspan(num_drafted, count);
        part.confidence.assign(stated.begin(), stated.end());
      }
      num_drafted += count;
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
  if (!output) return;
  schedule_.took(step.decision, num_drafts, stats_.accepted_tokens - accepted_before, seconds);
  warn_of_bad_drafts();
}

void StepRunner::warn_of_bad_drafts() {
  constexpr std::int64_t kEnoughChains = 256;
  constexpr double kFewTokens = 1.05;
  if (has_warned_ || !warn_ || stats_.draft_chains < kEnoughChains) return;
  const double tokens =
      1 + static_cast<double>(stats_.accepted_tokens) / static_cast<double>(stats_.draft_chains);
  if (tokens >= kFewTokens) return;
  has_warned_ = true;
  warn_(fmt::format(
      "drafts are hardly ever accepted: {:.3f} tokens a step after {} steps with drafts, where more than {} "
      "are usual; check that the draft head belongs to these weights (baleen inspect names both), that they "
      "were converted together, and that the text is of a kind that the model writes",
      tokens, stats_.draft_chains, kFewTokens));
}

void StepRunner::draft(Step& step) {
  std::vector<JobStep*> chains;
  for (JobStep& part : step.parts) {
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
      if (!confidence.empty() && stated_chance(confidence[i]) < draft_threshold_) continue;
      const bool extended = chosen.empty()
                                ? reply.extend(part.drafts, logits.row(static_cast<std::int64_t>(i)))
                                : reply.extend(part.drafts, chosen[i]);
      if (!extended) continue;
      if (!confidence.empty()) part.confidence.push_back(confidence[i]);
      if (depth + 1 < part.share.num_drafts) unfinished.push_back(&part);
    }
    chains = std::move(unfinished);
  }
  cut(step);
  for (JobStep& part : step.parts) part.feed_drafts();
}

void StepRunner::cut(Step& step) const {
  std::vector<DraftCandidate> candidates;
  for (const JobStep& part : step.parts) {
    if (!part.decodes) continue;
    if (part.confidence.size() != part.drafts.tokens.size()) return;  // the head tells none
    candidates.push_back({.record = &job_of(part).draft_record,
                          .most = std::ssize(part.drafts.tokens),
                          .confidence = part.confidence});
  }
  schedule_.cut(candidates, step.decision);
  auto candidate = candidates.begin();
  for (JobStep& part : step.parts) {
    if (!part.decodes) continue;
    const auto kept = static_cast<std::size_t>((candidate++)->num_drafts);
    part.drafts.tokens.resize(kept);
    part.confidence.resize(kept);
  }
}

}  // namespace baleen
