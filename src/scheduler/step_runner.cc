#include "scheduler/step_runner.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace baleen {

void StepRunner::run() {
  std::vector<Part> parts;
  for (const PlannedPart& part : planner_.plan()) {
    parts.push_back({.job = static_cast<Job*>(part.contender), .share = part.share});
  }
  if (parts.empty()) return;

  const double begin = clock_();
  draft(parts);
  std::vector<StepInput> inputs;
  for (Part& part : parts) {
    part.start = engine_.length(*part.job->sequence);
    inputs.push_back(part.input());
  }
  ask_for_tokens(parts, inputs);
  const Result<StepOutput> output = engine_.step(inputs);
  stats_.step_seconds += clock_() - begin;
  ++stats_.steps;

  if (!output) {
    // What could be wrong with one request alone was refused before; what is left spoils every sequence of the step.
    for (const Part& part : parts) board_.end_failed(*part.job, output.error());
    return;
  }
  std::int64_t row = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t count = num_wanted(inputs[i]);
    const StepOutput& out = output.value();
    Rows rows{.count = count};
    if (count == 0) {
      // A chunk before the prompt's end: the step may have no logits at all.
    } else if (out.chosen.empty()) {
      rows.logits = out.logits.slice(row, row + count);
    } else {
      rows.chosen = out.chosen.subspan(static_cast<std::size_t>(row), static_cast<std::size_t>(count));
    }
    take_rows(parts[i], rows);
    row += count;
  }
}

std::int64_t StepRunner::num_wanted(const StepInput& input) {
  if (input.wanted == WantedLogits::kNone) return 0;
  return input.wanted == WantedLogits::kLast ? 1 : std::ssize(input.tokens);
}

void StepRunner::ask_for_tokens(std::vector<Part>& parts, std::vector<StepInput>& inputs) const {
  if (!chooses_) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].job->wants_all_rows) return;
    for (std::int64_t ahead = 0; ahead < num_wanted(inputs[i]); ++ahead) {
      const auto draw = parts[i].job->reply->draw_row(static_cast<std::uint64_t>(ahead));
      if (!draw) return;
      parts[i].draws.push_back(*draw);
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) inputs[i].draws = parts[i].draws;
}

StepInput StepRunner::Part::input() const {
  if (!fed.empty()) {
    return {
        .sequence = *job->sequence, .tokens = fed, .wanted = WantedLogits::kAll, .wants_mtp_logits = false};
  }
  const auto unseen = std::span(job->tokens).subspan(static_cast<std::size_t>(start));
  const auto tokens = unseen.first(static_cast<std::size_t>(share.num_tokens));
  if (job->wants_all_rows) {
    return {.sequence = *job->sequence,
            .tokens = tokens,
            .wanted = WantedLogits::kAll,
            .wants_mtp_logits = false};
  }
  return {*job->sequence, tokens, tokens.size() == unseen.size() ? WantedLogits::kLast : WantedLogits::kNone};
}

void StepRunner::draft(std::vector<Part>& parts) {
  std::vector<Part*> chains;
  for (Part& part : parts) {
    if (part.share.num_drafts == 0) continue;
    part.drafts = part.job->reply->begin_drafts();
    chains.push_back(&part);
  }
  std::vector<DraftInput> inputs;
  for (std::int64_t depth = 0; !chains.empty(); ++depth) {
    inputs.clear();
    for (const Part* part : chains) {
      const TokenId newest = depth == 0 ? part->job->tokens.back() : part->drafts.tokens.back();
      DraftInput& input = inputs.emplace_back(DraftInput{*part->job->sequence, newest});
      if (chooses_) input.draw = part->job->reply->draw_row(part->drafts.tokens.size());
    }
    const Result<DraftOutput> output = engine_.draft(inputs, depth);
    if (!output) break;  // the step goes on with the drafts it has
    const auto& [logits, chosen] = output.value();
    std::vector<Part*> unfinished;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      Part& part = *chains[i];
      Reply& reply = *part.job->reply;
      const bool extended = chosen.empty()
                                ? reply.extend(part.drafts, logits.row(static_cast<std::int64_t>(i)))
                                : reply.extend(part.drafts, chosen[i]);
      if (!extended) continue;
      if (depth + 1 < part.share.num_drafts) unfinished.push_back(&part);
    }
    chains = std::move(unfinished);
  }
  for (Part& part : parts) {
    if (part.drafts.tokens.empty()) continue;
    part.fed.push_back(part.job->tokens.back());
    part.fed.insert(part.fed.end(), part.drafts.tokens.begin(), part.drafts.tokens.end());
  }
}

std::string StepRunner::score(const Part& part, const Rows& rows) {
  Job& job = *part.job;
  const std::int64_t end = std::min(part.start + rows.count + 1, job.prompt_tokens);
  for (; job.num_scored < end; ++job.num_scored) {
    const TokenId token = job.tokens[static_cast<std::size_t>(job.num_scored)];
    std::string error = job.reply->score_prompt(rows.logits.row(job.num_scored - 1 - part.start), token);
    if (!error.empty()) return error;
  }
  return "";
}

void StepRunner::take_rows(Part& part, Rows rows) {
  Job& job = *part.job;
  planner_.after_step(job);
  const std::int64_t done = engine_.length(*job.sequence);
  if (done < job.prompt_tokens) job.report_progress(done);
  if (job.wants_all_rows) {
    std::string error = score(part, rows);
    if (!error.empty()) return board_.end_failed(job, std::move(error));
    if (part.start + rows.count < job.num_tokens) {
      job.publish(/*last=*/false);
      if (job.sink_threw) board_.end(job, ReplyEnd::kCancelled, "", /*keep=*/true);
      return;
    }
    job.wants_all_rows = false;
    rows = {.logits = rows.logits.slice(rows.count - 1, rows.count), .count = 1};
  }
  if (rows.count == 0) return;
  if (job.request.no_reply) return board_.end(job, ReplyEnd::kLength, "", /*keep=*/true);

  const bool decodes = job.reply->num_tokens() > 0 && part.share.num_tokens == 1;
  if (decodes) ++job.summary.steps;
  std::string error = sample(part, rows);
  if (!error.empty()) return board_.end_failed(job, std::move(error));
  // A step with d drafts samples up to d + 1 tokens.
  job.most_drafts = std::min(most_drafts_, job.reply->tokens_left() - 1);
  const std::int64_t seen = std::ssize(job.tokens) - 1;
  if (!part.fed.empty() && engine_.length(*job.sequence) > seen) engine_.truncate(*job.sequence, seen);

  if (const auto end = job.reply->end()) return board_.end(job, *end, "", /*keep=*/true);
  job.publish(/*last=*/false);
  if (job.sink_threw) board_.end(job, ReplyEnd::kCancelled, "", /*keep=*/true);
}

std::string StepRunner::sample(Part& part, const Rows& rows) {
  Job& job = *part.job;
  const std::vector<TokenId>& drafts = part.drafts.tokens;
  const bool first = job.reply->num_tokens() == 0;
  std::size_t num_accepted = 0;
  for (std::int64_t row = 0; row < rows.count; ++row) {
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
