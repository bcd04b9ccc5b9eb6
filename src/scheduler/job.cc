#include "scheduler/job.h"

#include <exception>
#include <utility>

namespace baleen {

Job::Job(Submission&& submission)
    : tokens(std::move(submission.request.prompt)),
      id(submission.id),
      request(std::move(submission.request)),
      sink(std::move(submission.sink)),
      submitted_at(submission.submitted_at) {
  request.prompt.clear();
  summary.prompt_tokens = std::ssize(tokens);
  summary.seed = request.sampling.seed.value_or(0);
}

void Job::publish(bool last) {
  if (!reply || sink_threw) return;
  const ReplyPiece piece = reply->take_piece(last);
  if (piece.tokens.empty() && piece.text.empty()) return;
  try {
    sink->piece(piece);
  } catch (const std::exception&) {
    sink_threw = true;
  }
}

void Job::finish(ReplyEnd end, std::string error) {
  summary.end = end;
  summary.error = std::move(error);
  if (reply) {
    summary.stop_string = reply->stop_string();
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
