#include "scheduler/row_taker.h"

#include <algorithm>
#include <utility>

namespace baleen {

void RowTaker::take(Job& job, const JobStep& part, PartRows rows) {
  planner_.after_step(job, part.num_seen);
  if (part.num_seen < job.prompt_tokens) job.report_progress(part.num_seen);
  if (part.scores_prompt) {
    std::string error = score(job, part, rows.logits);
    if (!error.empty()) return board_.end_failed(job, std::move(error));
    if (!part.wants_row) return publish_later(job);
    job.wants_all_rows = false;
    rows.logits = rows.logits.slice(part.num_rows() - 1, part.num_rows());
  }
  if (!part.wants_row) return;
  if (job.request.no_reply) return board_.end(job, ReplyEnd::kLength, "", /*keep=*/true);

  if (part.decodes) ++job.summary.steps;
  std::string error = sample(job, part, rows);
  if (!error.empty()) return board_.end_failed(job, std::move(error));
  // A step with d drafts samples up to d + 1 tokens.
  job.most_drafts = std::min(most_drafts_, job.reply->tokens_left() - 1);
  const std::int64_t seen = std::ssize(job.tokens) - 1;
  if (!part.drafts.tokens.empty() && engine_.length(*job.sequence) > seen)
    engine_.truncate(*job.sequence, seen);

  if (const auto end = job.reply->end()) return board_.end(job, *end, "", /*keep=*/true);
  // While other requests' tokens are chosen and the next step is planned.
  if (job.num_pending == 0) engine_.foresee(*job.sequence, std::span(job.tokens).last(1));
  publish_later(job);
}

void RowTaker::publish() {
  for (const RequestId id : std::exchange(unpublished_, {})) {
    Job* const job = board_.job(id);
    if (job == nullptr) continue;  // ended: its client has everything
    job->publish(/*last=*/false);
    if (job->sink_threw) board_.end(*job, ReplyEnd::kCancelled, "", /*keep=*/true);
  }
}

std::string RowTaker::score(Job& job, const JobStep& part, const ConstActivations<2>& logits) {
  const std::int64_t start = part.num_seen - part.num_rows();
  const std::int64_t end = std::min(part.num_seen + 1, job.prompt_tokens);
  for (; job.num_scored < end; ++job.num_scored) {
    const TokenId token = job.tokens[static_cast<std::size_t>(job.num_scored)];
    std::string error = job.reply->score_prompt(logits.row(job.num_scored - 1 - start), token);
    if (!error.empty()) return error;
  }
  return "";
}

std::string RowTaker::sample(Job& job, const JobStep& part, const PartRows& rows) {
  const std::vector<TokenId>& drafts = part.drafts.tokens;
  const bool first = job.reply->num_tokens() == 0;
  std::size_t num_accepted = 0;
  bool was_refused = false;
  for (std::int64_t row = 0; row < part.num_reply_rows(); ++row) {
    TokenId token = kNoToken;
    if (rows.chosen.empty()) {
      const Result<TokenId> sampled = job.reply->sample(rows.logits.row(row));
      if (!sampled) return sampled.error();
      token = sampled.value();
    } else {
      token = job.reply->take(rows.chosen[static_cast<std::size_t>(row)]);
    }
    job.append(token);
    ++stats_.reply_tokens;
    if (num_accepted == drafts.size()) break;
    was_refused = token != drafts[num_accepted];
    if (was_refused) break;
    ++num_accepted;
    if (job.reply->end()) break;
  }
  if (first) job.summary.first_token_seconds = clock_() - job.submitted_at;
  if (!drafts.empty()) count_drafts(job, part, static_cast<std::int64_t>(num_accepted), was_refused);
  return "";
}

void RowTaker::count_drafts(Job& job, const JobStep& part, std::int64_t num_accepted, bool was_refused) {
  const std::int64_t num_drafts = std::ssize(part.drafts.tokens);
  job.summary.drafted_tokens += num_drafts;
  job.summary.accepted_tokens += num_accepted;
  stats_.drafted_tokens += num_drafts;
  stats_.accepted_tokens += num_accepted;
  ++stats_.draft_chains;
  for (std::int64_t depth = 0; depth < num_drafts; ++depth) {
    DraftsAtDepth& at = stats_.drafts_by_depth[static_cast<std::size_t>(depth)];
    ++at.drafted;
    if (depth < num_accepted) ++at.accepted;
  }
  schedule_.see(job.draft_record,
                {.num_accepted = num_accepted, .was_refused = was_refused, .confidence = part.confidence});
}

}  // namespace baleen
