#include "simulator/serving/simulated_server.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/decoder_half.h"

namespace baleen {
namespace {

/// Looking at the pools costs as much as a few steps.
constexpr std::int64_t kStepsBetweenLooks = 64;

/// `setup`, once it is checked: what is made of it comes after.
ServerSetup checked(ServerSetup setup) {
  check(setup);
  return setup;
}

SimulatedJob& job_of(Contender& contender) { return static_cast<SimulatedJob&>(contender); }

}  // namespace

SimulatedJob::SimulatedJob(const ServingRequest& of)
    : Contender{.prompt_tokens = of.prompt_tokens, .num_tokens = of.prompt_tokens}, request(of) {
  record.arrival = of.arrival;
  record.prompt_tokens = of.prompt_tokens;
}

SimulatedServer::SimulatedServer(ServerSetup setup, Acceptance acceptance, bool prefill_only,
                                 double patience_seconds, TimeHistogram& gaps)
    : setup_(checked(std::move(setup))),
      limits_(within(setup_.limits, setup_.scheduler)),
      acceptance_(std::move(acceptance)),
      prefill_only_(prefill_only),
      patience_seconds_(patience_seconds),
      gaps_(gaps),
      most_drafts_(most_drafts(limits_, setup_.scheduler)),
      schedule_(most_drafts_, setup_.scheduler.draft_schedule),
      sequences_(setup_.geometry, setup_.capacity, setup_.reserved_tails, setup_.bounded_replay_tokens > 0),
      lineup_(sequences_, *this, max_running(limits_)),
      planner_(sequences_, lineup_, step_budget(limits_, setup_.scheduler), schedule_) {}

void SimulatedServer::submit(JobPtr owned, double now) {
  SimulatedJob& job = *owned;
  job.id = static_cast<RequestId>(next_id_++);
  jobs_.emplace(static_cast<std::int64_t>(job.id), std::move(owned));
  if (!job.brings_cache && num_queued_ >= setup_.scheduler.max_queue) {
    return release(job, now, RequestEnd::kTurnedAway);
  }
  ++num_queued_;
  arrived_.push_back(&job);
}

void SimulatedServer::take_arrived() {
  for (SimulatedJob* job : std::exchange(arrived_, {})) {
    lineup_.add(*job);
    if (job->brings_cache) continue;
    if (job->prompt_tokens > limits_.context_tokens) {
      refuse(*job, fmt::format("the prompt has {} tokens, and the context holds {}; shorten the prompt",
                               job->prompt_tokens, limits_.context_tokens));
      continue;
    }
    // The last token of a reply is never fed.
    const std::int64_t most_output = limits_.context_tokens - job->prompt_tokens + 1;
    job->record.output_tokens = job->tokens_left = std::min(job->request.output_tokens, most_output);
    if (patience_seconds_ < kForEver) without_token_.push_back(static_cast<std::int64_t>(job->id));
  }
}

SimulatedJob* SimulatedServer::longest_without_token() {
  for (; !without_token_.empty(); without_token_.pop_front()) {
    const auto found = jobs_.find(without_token_.front());
    if (found != jobs_.end() && found->second->reply_tokens() == 0) return found->second.get();
  }
  return nullptr;
}

void SimulatedServer::take_cancellations(double now) {
  for (SimulatedJob* job = longest_without_token(); job != nullptr; job = longest_without_token()) {
    if (now < job->record.arrival + patience_seconds_) return;
    release(*job, now, RequestEnd::kAbandoned);
  }
}

std::optional<SequenceId> SimulatedServer::open(Contender& contender) {
  SimulatedJob& job = job_of(contender);
  const auto id = sequences_.open(job.request.stream, job.num_tokens,
                                  decoder_begin_of(job.prompt_tokens, setup_.bounded_replay_tokens));
  if (!id) return std::nullopt;
  job.found_tokens = sequences_.length(*id);
  const std::int64_t brought = job.num_tokens - 1 - job.found_tokens;
  if (!job.brings_cache || brought == 0) return id;
  if (!sequences_.reserve(*id, brought)) {
    sequences_.close(*id, /*keep=*/false);
    return std::nullopt;
  }
  sequences_.feed(*id, brought);
  return id;
}

void SimulatedServer::started(Contender& contender) {
  SimulatedJob& job = job_of(contender);
  if (job.brings_cache) {
    job.brings_cache = false;  // once it loses its pages, it is computed here
    job.matched_tokens = job.found_tokens;
  }
  if (std::exchange(job.was_admitted, true)) return;
  job.record.admitted = now_;
  job.record.cached_tokens = job.found_tokens;
}

void SimulatedServer::refuse(Contender& contender, std::string sentence) {
  if (first_refusal_.empty()) first_refusal_ = std::move(sentence);
  release(job_of(contender), now_, RequestEnd::kRefused);
}

const Contender* SimulatedServer::find(RequestId id) const {
  const auto found = jobs_.find(static_cast<std::int64_t>(id));
  return found == jobs_.end() ? nullptr : found->second.get();
}

void SimulatedServer::release(SimulatedJob& job, double now, RequestEnd end) {
  lineup_.remove(job, /*keep=*/end != RequestEnd::kRefused);
  job.record.end = end;
  job.record.finished = now;
  job.record.preemptions += std::exchange(job.preemptions, 0);
  gone_.push_back(std::move(jobs_.extract(static_cast<std::int64_t>(job.id)).mapped()));
}

bool SimulatedServer::plan() {
  parts_.clear();
  step_.clear();
  for (const PlannedPart& planned : planner_.plan()) {
    SimulatedJob& job = job_of(*planned.contender);
    const StepShare& share = planned.share;
    const std::int64_t start = sequences_.length(*job.sequence);
    const bool gives_token = start + share.num_tokens == job.num_tokens;
    parts_.push_back({.job = &job, .share = share, .gives_token = gives_token});
    step_.push_back({.start = start,
                     .num_tokens = share.num_tokens + share.num_drafts,
                     .num_logits = gives_token ? 1 + share.num_drafts : 0,
                     .decoder_begin = sequences_.decoder_begin(*job.sequence)});
  }
  return !parts_.empty();
}

std::optional<double> SimulatedServer::begin_steps(double now, double horizon) {
  now_ = now;
  const std::int64_t preemptions_before = lineup_.num_preemptions();
  const std::size_t gone_before = gone_.size();
  take_arrived();
  take_cancellations(now);
  if (const SimulatedJob* job = longest_without_token()) {
    horizon = std::min(horizon, job->record.arrival + patience_seconds_);
  }
  lineup_.admit();
  while (!plan()) {
    // Whoever was planned has been refused.
    num_queued_ = lineup_.num_waiting() + std::ssize(arrived_);
    if (lineup_.num_waiting() == 0) return std::nullopt;
    lineup_.admit();
  }
  const bool someone_lost_room =
      lineup_.num_preemptions() != preemptions_before || gone_.size() != gone_before;
  const std::int64_t most_steps = num_equal_steps(someone_lost_room);

  began_at_ = now;
  decision_ = planner_.decision();
  double end = end_of_drafts(now);
  end += setup_.times->step_seconds(step_);
  count_step(now, end);
  for (num_steps_ = 1; num_steps_ < most_steps && end < horizon; ++num_steps_) {
    for (const Part& part : parts_) add_gap(*part.job, end);
    for (QueryPart& part : step_) ++part.start;
    const double begin = end;
    end += setup_.times->step_seconds(step_);
    count_step(begin, end);
  }
  // Who comes from now on finds the queue as all steps but the last have left it.
  if (num_steps_ > 1) num_queued_ = lineup_.num_waiting();
  return end;
}

double SimulatedServer::end_of_drafts(double now) {
  std::int64_t deepest = 0;
  for (const Part& part : parts_) deepest = std::max(deepest, part.share.num_drafts);
  for (std::int64_t depth = 0; depth < deepest; ++depth) {
    chains_.clear();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].share.num_drafts <= depth) continue;
      chains_.push_back({.start = step_[i].start + depth, .num_tokens = 1, .num_logits = 1});
    }
    now += setup_.times->draft_seconds(chains_, depth);
  }
  return now;
}

std::int64_t SimulatedServer::num_equal_steps(bool someone_lost_room) const {
  // None of those that wait can be admitted by what a step changes: that takes an end, or pages that come
  // back.
  if (someone_lost_room || most_drafts_ > 0 || std::ssize(parts_) != lineup_.num_running()) return 1;
  std::int64_t most = kStepsBetweenLooks - record_.steps % kStepsBetweenLooks;
  for (const Part& part : parts_) {
    const SimulatedJob& job = *part.job;
    if (!part.gives_token || part.share.num_tokens != 1 || !job.prompt_was_cached) return 1;
    most = std::min({most, job.tokens_left, sequences_.room(*job.sequence)});
  }
  return most;
}

void SimulatedServer::count_step(double begin, double end) {
  constexpr std::int64_t kWorkOfStep = 50;
  ++record_.steps;
  work_ += kWorkOfStep + std::ssize(step_);
  record_.busy_seconds += end - begin;
  for (const QueryPart& part : step_) record_.step_tokens += part.num_tokens;
  record_.steps_by_batch.resize(std::max(record_.steps_by_batch.size(), step_.size() + 1));
  ++record_.steps_by_batch[step_.size()];
}

void SimulatedServer::end_steps(double now) {
  now_ = now;
  for (Part& part : parts_) {
    SimulatedJob& job = *part.job;
    const std::int64_t tokens_before = num_steps_ - 1;  // of those but the last
    job.num_tokens += tokens_before;
    job.tokens_left -= tokens_before;
    const std::int64_t num_drafts = part.share.num_drafts;
    if (num_drafts == 0) {
      sequences_.feed(*job.sequence, tokens_before + part.share.num_tokens);
      continue;
    }
    part.num_accepted = acceptance_.accepted(job.request.number, job.reply_tokens(), num_drafts);
    sequences_.feed_drafts(*job.sequence, 1 + num_drafts, 1 + part.num_accepted);
  }
  std::int64_t num_drafts = 0, num_accepted = 0;
  for (const Part& part : parts_) {
    num_drafts += part.share.num_drafts;
    num_accepted += part.num_accepted;
    take_tokens(part, now);
  }
  schedule_.took(decision_, num_drafts, num_accepted, now - began_at_);
  parts_.clear();
  num_queued_ = lineup_.num_waiting() + std::ssize(arrived_);
  if (record_.steps % kStepsBetweenLooks == 0) look_at_pools(now);
}

void SimulatedServer::take_tokens(const Part& part, double now) {
  SimulatedJob& job = *part.job;
  planner_.after_step(job, sequences_.length(*job.sequence));
  if (!part.gives_token) return;
  if (job.reply_tokens() == 0) {
    job.record.first_token = job.last_token = now;
  } else {
    add_gap(job, now);
  }
  const std::int64_t num_new = 1 + part.num_accepted;
  job.num_tokens += num_new;
  job.tokens_left -= num_new;
  job.record.drafted_tokens += part.share.num_drafts;
  job.record.accepted_tokens += part.num_accepted;
  if (part.share.num_drafts > 0) {
    schedule_.see(job.draft_record, {.num_accepted = part.num_accepted,
                                     .was_refused = part.num_accepted < part.share.num_drafts});
  }
  // A step with d drafts gives up to d + 1 tokens.
  job.most_drafts = std::min(most_drafts_, job.tokens_left - 1);
  if (job.tokens_left == 0) {
    release(job, now, RequestEnd::kFinished);
  } else if (prefill_only_) {
    release(job, now, RequestEnd::kUnfinished);
  }
}

void SimulatedServer::add_gap(SimulatedJob& job, double now) {
  gaps_.add(now - job.last_token);
  job.last_token = now;
}

void SimulatedServer::look_at_pools(double now) {
  const double seconds = now - std::exchange(looked_at_, now);
  const CacheUse use = sequences_.cache_use();
  const auto add = [seconds](Occupancy& occupancy, const PoolUse& pool) {
    const auto share_of = [&](std::int64_t pages) {
      return static_cast<double>(pages) / static_cast<double>(pool.total);
    };
    occupancy.seconds += seconds;
    occupancy.in_use_seconds += seconds * share_of(pool.in_use);
    occupancy.cached_seconds += seconds * share_of(pool.cached);
    occupancy.most_in_use = std::max(occupancy.most_in_use, share_of(pool.in_use));
  };
  add(record_.pages, use.pages);
  add(record_.window_pages, use.window_pages);
}

ServerRecord SimulatedServer::record() const {
  ServerRecord record = record_;
  record.preemptions = lineup_.num_preemptions();
  return record;
}

void SimulatedServer::check_all_came_back() const {
  BALEEN_CHECK(jobs_.empty());
  sequences_.check_integrity();
  const CacheUse use = sequences_.cache_use();
  for (const PoolUse& pool : {use.pages, use.window_pages, use.state_slots}) {
    BALEEN_CHECK_EQ(pool.in_use, 0);
  }
}

}  // namespace baleen
