#include "scheduler/job_board.h"

#include <algorithm>
#include <new>
#include <utility>

namespace baleen {
namespace {

Result<std::shared_ptr<const MaskVocabulary>> mask_vocabulary_of(const Tokenizer& tokenizer,
                                                                 std::int64_t vocab_size) {
  try {
    return make_mask_vocabulary(tokenizer, vocab_size);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

}  // namespace

JobBoard::JobBoard(StepEngine& engine, const Tokenizer& tokenizer, const Scheduler::Clock& clock,
                   const EngineLimits& limits, SchedulerStats& stats)
    : engine_(engine),
      tokenizer_(tokenizer),
      clock_(clock),
      limits_(limits),
      stats_(stats),
      mask_vocabulary_(mask_vocabulary_of(tokenizer, limits.vocab_size)),
      lineup_(engine, *this, max_running(limits)) {}

void JobBoard::add(Submission&& submission) {
  const RequestId id = submission.id;
  const std::shared_ptr<ReplySink> sink = submission.sink;
  try {
    const std::string refusal = reason_to_refuse(submission.request);
    auto owned = std::make_unique<Job>(std::move(submission));
    Job& job = *owned;
    jobs_.emplace(id, std::move(owned));
    lineup_.add(job);
    if (!refusal.empty()) end_failed(job, refusal);
  } catch (const std::bad_alloc&) {
    jobs_.erase(id);
    sink->finished({.end = ReplyEnd::kFailed, .error = "the server is short of memory"});
  }
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
  for (auto next = jobs_.begin(); next != jobs_.end();) {
    Job& job = *(next++)->second;
    if (!lineup_.waits(job)) end_failed(job, error);
  }
}

void JobBoard::fail_all(const std::string& error) {
  while (!jobs_.empty()) end_failed(*jobs_.begin()->second, error);
}

std::optional<SequenceId> JobBoard::open(Contender& contender) {
  const Job& job = static_cast<Job&>(contender);
  std::span<const TokenId> tokens = job.tokens;
  // What the cache holds has no logits: a scored prompt may begin with the part of it that is scored already.
  if (job.wants_all_rows) tokens = tokens.first(static_cast<std::size_t>(job.num_scored));
  const std::optional<SequenceId> sequence =
      job.wants_all_rows ? engine_.open(tokens) : engine_.open_prompt(tokens, job.prompt_tokens);
  if (!sequence || job.wants_all_rows) return sequence;
  for (const std::int64_t end : job.request.section_ends) engine_.keep_tail(*sequence, end);
  return sequence;
}

void JobBoard::refuse(Contender& contender, std::string sentence) {
  end_failed(static_cast<Job&>(contender), std::move(sentence));
}

const Contender* JobBoard::find(RequestId id) const { return job(id); }

Job* JobBoard::find(RequestId id, SequenceId sequence) const {
  Job* const found = job(id);
  return found != nullptr && found->sequence == sequence ? found : nullptr;
}

Job* JobBoard::job(RequestId id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void JobBoard::stopped(Contender& contender) {
  contender.num_pending = 0;
  static_cast<Job&>(contender).count_tokens();
}

void JobBoard::started(Contender& contender) {
  Job& job = static_cast<Job&>(contender);
  if (job.reply) return;  // it comes back
  // The last token of a reply is never fed.
  const std::int64_t room = limits_.context_tokens - job.prompt_tokens + 1;
  const std::int64_t asked = job.request.max_tokens;
  const auto vocabulary = job.request.rules ? mask_vocabulary_.value() : nullptr;
  job.reply.emplace(job.request, job.tokens, static_cast<std::int32_t>(limits_.vocab_size),
                    asked > 0 ? std::min(asked, room) : room, tokenizer_, vocabulary);
  job.summary.cached_tokens = job.matched_tokens;
  job.summary.queue_seconds = clock_() - job.submitted_at;
  stats_.prompt_tokens += job.prompt_tokens;
  stats_.cached_tokens += job.matched_tokens;
  PrefixLookup lookup = job.wants_all_rows ? PrefixLookup() : engine_.lookup(*job.sequence);
  ++stats_.prefix_ends[static_cast<std::size_t>(lookup.end)];
  stats_.lost_prefix_tokens += lookup.lost_tokens;
  recent_prefixes_.add(job.id, std::move(lookup), job.tokens);
}

void JobBoard::end(Job& job, ReplyEnd end, std::string error, bool keep) {
  lineup_.remove(job, keep);
  const std::unique_ptr<Job> owned = std::move(jobs_.extract(job.id).mapped());
  if (end == ReplyEnd::kCancelled) {
    ++stats_.cancelled;
  } else if (end == ReplyEnd::kFailed) {
    ++stats_.failed;
  } else {
    ++stats_.finished;
  }
  stats_.looping_replies += end == ReplyEnd::kRepetition ? 1 : 0;
  const ThinkingEnd thinking_end = job.reply ? job.reply->thinking_end() : ThinkingEnd::kNothing;
  stats_.thinking_over_budget += thinking_end == ThinkingEnd::kBudget ? 1 : 0;
  stats_.looping_thinking += thinking_end == ThinkingEnd::kRepetition ? 1 : 0;
  job.summary.total_seconds = clock_() - job.submitted_at;
  job.finish(end, std::move(error));
}

}  // namespace baleen
