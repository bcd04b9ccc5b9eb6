#include "scheduler/row_taker.h"

#include <algorithm>
#include <utility>

namespace baleen {

void RowTaker::take(Job& job, const StepPart& part, const PartRows& rows) {
  planner_.after_step(job, part.num_seen);
  if (part.num_rows() == 0) return;

  if (part.decodes) ++job.summary.steps;
  std::string error = sample(job, part, rows);
  if (!error.empty()) return board_.end_failed(job, std::move(error));
  // A step with d drafts samples up to d + 1 tokens.
  job.most_drafts = std::min(most_drafts_, job.reply->tokens_left() - 1);
  const std::int64_t seen = std::ssize(job.tokens) - 1;
  if (!part.drafts.tokens.empty() && engine_.length(*job.sequence) > seen)
    engine_.truncate(*job.sequence, seen);

  if (const auto end = job.reply->end()) return board_.end(job, *end, "", /*keep=*/true);
  job.publish(/*last=*/false);
  if (job.sink_threw) board_.end(job, ReplyEnd::kCancelled, "", /*keep=*/true);
}

std::string RowTaker::sample(Job& job, const StepPart& part, const PartRows& rows) {
  const std::vector<TokenId>& drafts = part.drafts.tokens;
  const bool first = job.reply->num_tokens() == 0;
  std::size_t num_accepted = 0;
  for (std::int64_t row = 0; row < part.num_rows(); ++row) {
    TokenId token = kNoToken;
    if (rows.chosen.empty()) {
      const Result<TokenId> sampled = job.reply->sample(rows.logits.row(row));
      if (!sampled) return sampled.error();
      token = sampled.value();
    } else {
      token = rows.chosen[static_cast<std::size_t>(row)];
      job.reply->take(token);
    }
    job.append(token);
    ++stats_.reply_tokens;
    if (num_accepted == drafts.size() || token != drafts[num_accepted]) break;
    ++num_accepted;
    if (job.reply->end()) break;
  }
  if (first) job.summary.first_token_seconds = clock_() - job.submitted_at;
  job.summary.drafted_tokens += std::ssize(drafts);
  job.summary.accepted_tokens += static_cast<std::int64_t>(num_accepted);
  stats_.drafted_tokens += std::ssize(drafts);
  stats_.accepted_tokens += static_cast<std::int64_t>(num_accepted);
  return "";
}

}  // namespace baleen
