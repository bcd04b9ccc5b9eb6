#include "scheduler/job.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace baleen {

Job::Job(Submission&& submission)
    : Contender{.id = submission.id,
                .priority = submission.request.priority,
                .after_prompt_of = submission.request.after_prompt_of,
                .prompt_tokens = std::ssize(submission.request.prompt),
                .num_tokens = std::ssize(submission.request.prompt),
                .wants_all_rows = submission.request.score_prompt},
      tokens(std::move(submission.request.prompt)),
      request(std::move(submission.request)),
      sink(std::move(submission.sink)),
      submitted_at(submission.submitted_at) {
  request.prompt.clear();
  summary.prompt_tokens = prompt_tokens;
  summary.seed = request.sampling.seed.value_or(0);
}

void Job::append(TokenId token) {
  tokens.push_back(token);
  count_tokens();
}

void Job::count_tokens() {
  // The last token of a reply is never fed.
  const std::int64_t most_fed = reply ? std::max<std::int64_t>(reply->tokens_left() - 1, 0) : 0;
  num_tokens = std::ssize(tokens) + std::min(num_pending, most_fed);
}

void Job::publish(bool last) {
  if (!reply || sink_threw) return;
  const ReplyPiece piece = reply->take_piece(last);
  if (piece.tokens.empty() && piece.text.text.empty() && piece.prompt_tokens.empty()) return;
  try {
    sink->piece(piece);
  } catch (const std::exception&) {
    sink_threw = true;
  }
}

void Job::report_progress(std::int64_t done) {
  if (!request.wants_progress || sink_threw) return;
  try {
    sink->progress(done, prompt_tokens);
  } catch (const std::exception&) {
    sink_threw = true;
  }
}

void Job::finish(ReplyEnd end, std::string error) {
  summary.end = end;
  summary.error = std::move(error);
  summary.preemptions = preemptions;
  if (reply) {
    summary.stop_string = reply->stop_string();
    summary.thinking_end = reply->thinking_end();
    summary.seed = reply->seed();
    summary.reply_tokens = reply->num_tokens();
  }
  publish(/*last=*/true);
  try {
    sink->finished(summary);
  } catch (const std::exception&) {
    sink_threw = true;
  }
}

}  // namespace baleen
