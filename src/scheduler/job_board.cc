#include "scheduler/job_board.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace baleen {
namespace {

/// A first chunk's worth of room must be there at admission; more would take window pages that a prompt does not need
/// at once.
constexpr std::int64_t kFirstChunkTokens = kPageTokens;

constexpr int kAnyPriority = std::numeric_limits<int>::min();

Result<std::shared_ptr<const MaskVocabulary>> mask_vocabulary_of(const Tokenizer& tokenizer,
                                                                 std::int64_t vocab_size) {
  try {
    return make_mask_vocabulary(tokenizer, vocab_size);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

std::int64_t pages_of(std::int64_t num_tokens) { return (num_tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

JobBoard::JobBoard(StepEngine& engine, const Tokenizer& tokenizer, const Scheduler::Clock& clock,
                   const EngineLimits& limits, SchedulerStats& stats)
    : engine_(engine),
      tokenizer_(tokenizer),
      clock_(clock),
      limits_(limits),
      stats_(stats),
      max_running_(std::min({limits.max_sequences, limits.max_batch_tokens, limits.max_logit_rows})),
      mask_vocabulary_(mask_vocabulary_of(tokenizer, limits.vocab_size)) {}

JobBoard::~JobBoard() {
  for (const Job* job : running_) engine_.close(*job->sequence, /*keep=*/false);
}

void JobBoard::add(Submission&& submission) {
  const std::string refusal = reason_to_refuse(submission.request);
  auto owned = std::make_unique<Job>(std::move(submission));
  Job& job = *owned;
  jobs_.emplace(job.id, std::move(owned));
  waiting_.insert(&job);
  if (!refusal.empty()) end_failed(job, refusal);
}

std::string JobBoard::reason_to_refuse(const Request& request) const {
  if (request.prompt.empty()) return "the prompt is empty; it must have at least one token";
  if (std::ssize(request.prompt) > limits_.context_tokens) {
    return fmt::format("the prompt has {} tokens, and the context holds {}; shorten the prompt",
                       request.prompt.size(), limits_.context_tokens);
  }
  for (const TokenId token : request.prompt) {
    if (token >= 0 && token < limits_.vocab_size) continue;
    return fmt::format("the prompt has token {}; ids of this vocabulary run from 0 to {}", token,
                       limits_.vocab_size - 1);
  }
  if (request.rules && !mask_vocabulary_) return mask_vocabulary_.error();
  const auto sentences = request.sampling.validate(static_cast<std::int32_t>(limits_.vocab_size));
  return sentences.empty() ? "" : sentences.front();
}

void JobBoard::cancel(RequestId id) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end()) end(*found->second, ReplyEnd::kCancelled, "", /*keep=*/true);
}

void JobBoard::cancel_all() {
  while (!jobs_.empty()) cancel(jobs_.begin()->first);
}

void JobBoard::fail_running(const std::string& error) {
  while (!running_.empty()) end_failed(**running_.begin(), error);
}

void JobBoard::fail_all(const std::string& error) {
  while (!jobs_.empty()) end_failed(*jobs_.begin()->second, error);
}

void JobBoard::admit() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Job& job = **next;
    if (!may_start(job)) {
      ++next;
      continue;
    }
    Admission admission = try_admit(job);
    const auto someone_yields = [&] {
      return !running_.empty() && (*running_.rbegin())->request.priority < job.request.priority &&
             fits(job, job.request.priority);
    };
    while (admission == Admission::kNoRoom && someone_yields()) {
      preempt(**running_.rbegin());
      job.no_room_since.reset();
      admission = try_admit(job);
    }
    if (admission == Admission::kNoRoom) return;
    next = waiting_.begin();
  }
}

bool JobBoard::may_start(const Job& job) const {
  const auto leader_id = job.request.after_prompt_of;
  // Only an earlier request can be waited for: no circles.
  if (!leader_id || *leader_id >= job.id) return true;
  const auto leader = jobs_.find(*leader_id);
  return leader == jobs_.end() || leader->second->prompt_was_cached;
}

JobBoard::Admission JobBoard::try_admit(Job& job) {
  const bool alone = running_.empty();
  if (!alone && job.no_room_since == num_ended_) return Admission::kNoRoom;
  job.no_room_since = num_ended_;
  if (std::ssize(running_) == max_running_) return Admission::kNoRoom;
  job.sequence = engine_.open(job.tokens);
  if (!job.sequence) {
    if (!alone) return Admission::kNoRoom;
    end_failed(job, "the engine opens no sequence although none is open");
    return Admission::kEnded;
  }
  waiting_.erase(&job);
  running_.insert(&job);
  job.matched_tokens = engine_.length(*job.sequence);
  const std::int64_t first_chunk = std::min(std::ssize(job.tokens) - job.matched_tokens, kFirstChunkTokens);
  if (!alone && !(fits(job, kAnyPriority) && engine_.reserve(*job.sequence, first_chunk))) {
    put_back(job);
    return Admission::kNoRoom;
  }
  job.no_room_since.reset();
  job.may_draft = false;
  if (!job.reply) start_reply(job);
  return Admission::kRuns;
}

bool JobBoard::fits(const Job& job, int least_priority) const {
  std::int64_t own_pages = 0, longest_match = 0;
  const auto count = [&](const Job& other) {
    own_pages += pages_of(std::ssize(other.tokens)) - other.matched_tokens / kPageTokens;
    longest_match = std::max(longest_match, other.matched_tokens);
  };
  count(job);
  for (const Job* other : running_) {
    if (other != &job && other->request.priority >= least_priority) count(*other);
  }
  // A beginning that the cache had may be common to several jobs: it is counted once, at its longest, which is too
  // little where they differ. Then pages run out later, and someone is preempted.
  return own_pages + longest_match / kPageTokens <= engine_.cache_use().pages.total;
}

void JobBoard::start_reply(Job& job) {
  const std::int64_t prompt_tokens = std::ssize(job.tokens);
  // The last token of a reply is never fed.
  const std::int64_t room = limits_.context_tokens - prompt_tokens + 1;
  const std::int64_t asked = job.request.max_tokens;
  const auto vocabulary = job.request.rules ? mask_vocabulary_.value() : nullptr;
  job.reply.emplace(job.request, job.tokens, static_cast<std::int32_t>(limits_.vocab_size),
                    asked > 0 ? std::min(asked, room) : room, tokenizer_, vocabulary);
  job.summary.cached_tokens = job.matched_tokens;
  job.summary.queue_seconds = clock_() - job.submitted_at;
  stats_.prompt_tokens += prompt_tokens;
  stats_.cached_tokens += job.matched_tokens;
}

bool JobBoard::reserve(Job& job, std::int64_t num_tokens) {
  while (!engine_.reserve(*job.sequence, num_tokens)) {
    Job* const least = *running_.rbegin();
    if (least == &job) return false;
    preempt(*least);
  }
  return true;
}

void JobBoard::preempt(Job& job) {
  put_back(job);
  ++job.summary.preemptions;
  ++stats_.preemptions;
}

void JobBoard::put_back(Job& job) {
  running_.erase(&job);
  waiting_.insert(&job);
  job.no_room_since = num_ended_;
  engine_.close(*std::exchange(job.sequence, std::nullopt), /*keep=*/true);
}

void JobBoard::end(Job& job, ReplyEnd end, std::string error, bool keep) {
  if (running_.erase(&job) > 0) {
    engine_.close(*std::exchange(job.sequence, std::nullopt), keep);
    ++num_ended_;
  }
  waiting_.erase(&job);
  const std::unique_ptr<Job> owned = std::move(jobs_.extract(job.id).mapped());
  if (end == ReplyEnd::kCancelled) {
    ++stats_.cancelled;
  } else if (end == ReplyEnd::kFailed) {
    ++stats_.failed;
  } else {
    ++stats_.finished;
  }
  job.summary.total_seconds = clock_() - job.submitted_at;
  job.finish(end, std::move(error));
}

}  // namespace baleen
