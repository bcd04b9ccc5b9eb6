#include "simulator/graph/workload.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "drafts/heads/draft_heads.h"
#include "model/decoder_half.h"

namespace baleen {

double Workload::tokens_per_step() const {
  double tokens = 1, accepted = 1;
  for (std::int64_t i = 0; i < num_drafts; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (draft_acceptance.empty()) {
      accepted *= kAssumedAcceptance[std::min(index, std::size(kAssumedAcceptance) - 1)];
    } else {
      accepted *= draft_acceptance[std::min(index, draft_acceptance.size() - 1)];
    }
    tokens += accepted;
  }
  return tokens;
}

std::int64_t most_drafts(const ModelConfig& config) {
  const DraftHeadType* const head = draft_head_of(config);
  return head == nullptr ? 0 : head->traits(config, {}).most_tokens;
}

double acceptance_for(double tokens_per_step, std::int64_t num_drafts) {
  if (!(tokens_per_step >= 1 && tokens_per_step <= static_cast<double>(num_drafts + 1))) {
    fail("{} tokens a step: with {} drafts 1 to {} are possible", tokens_per_step, num_drafts,
         num_drafts + 1);
  }
  double low = 0, high = 1;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const Workload work{.num_drafts = num_drafts, .draft_acceptance = {middle}};
    (work.tokens_per_step() < tokens_per_step ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<double> acceptance_of_published(std::span<const double> shares) {
  std::vector<double> chances;
  double before = 1;
  for (const double share : shares) {
    if (!(share >= 0 && share <= before)) {
      fail(
          "‹published acceptance› {}: shares of chains that come as far fall from draft to draft, from 1 to "
          "0, "
          "and before it is {}; ‹draft acceptance› takes those of each draft by itself",
          share, before);
    }
    chances.push_back(before > 0 ? share / before : 0);
    before = share;
  }
  return chances;
}

void validate(const Workload& workload, const ModelConfig& config) {
  constexpr std::int64_t kMaxQueries = 1 << 20;
  constexpr std::int64_t kMaxDrafts = 16;
  constexpr std::int64_t kMaxRows = 1 << 26;
  if (workload.num_queries < 1 || workload.num_queries > kMaxQueries) {
    fail("‹queries› {}: 1 to {} are possible", workload.num_queries, kMaxQueries);
  }
  if (workload.query_length < 1) fail("‹query length› {}: at least 1 is possible", workload.query_length);
  if (workload.decode && workload.query_length != 1) {
    fail(
        "‹query length› {} with ‹decoding›: a step of decoding has one new token a query, and ‹drafts› "
        "drafts",
        workload.query_length);
  }
  if (workload.context_length < 0)
    fail("‹context length› {}: 0 is the least possible", workload.context_length);
  if (workload.num_drafts < 0 || workload.num_drafts > kMaxDrafts) {
    fail("‹drafts› {}: 0 to {} are possible", workload.num_drafts, kMaxDrafts);
  }
  if (workload.num_drafts > 0 && draft_head_of(config) == nullptr) {
    fail("‹drafts› {}: this model has no draft head", workload.num_drafts);
  }
  if (workload.num_drafts > most_drafts(config)) {
    fail("‹drafts› {}: the {} drafts {} at most", workload.num_drafts, draft_head_of(config)->title,
         most_drafts(config));
  }
  // Without sums that could overflow.
  const std::int64_t most = config.max_position_embeddings;
  if (workload.query_length > most || workload.context_length > most ||
      workload.context_length + workload.query_length + workload.num_drafts > most) {
    fail("‹context length› {} ‹query length› {}{}: the model has {} positions", workload.context_length,
         workload.query_length,
         workload.num_drafts > 0 ? fmt::format(" and {} drafts", workload.num_drafts) : "", most);
  }
  if (workload.num_queries * (workload.query_length + workload.num_drafts) > kMaxRows) {
    fail("{} queries of {} tokens: a step of at most {} rows can be simulated", workload.num_queries,
         workload.query_length + workload.num_drafts, kMaxRows);
  }
  for (const double rate : workload.draft_acceptance) {
    if (!(rate >= 0 && rate <= 1)) fail("‹draft acceptance› {}: rates lie in 0 to 1", rate);
  }
  if (!(workload.prefix_cache_hit_rate >= 0 && workload.prefix_cache_hit_rate < 1)) {
    fail("‹prefix hit rate› {}: at least 0 and less than 1 is possible", workload.prefix_cache_hit_rate);
  }
  if (workload.bounded_replay > 0) {
    if (workload.decode || workload.trains)
      fail("‹bounded replay› {}: is of prompts that are served; leave it out", workload.bounded_replay);
    if (const auto refused = bounded_replay_violation(config, workload.bounded_replay)) fail("{}", *refused);
  }
  if (workload.prompt_behind < 0) fail("tokens behind a step: {}, 0 at least", workload.prompt_behind);
  if (!(workload.zipf >= 0 && std::isfinite(workload.zipf)))
    fail("‹Zipf exponent› {}: at least 0 is possible", workload.zipf);
  if (!(workload.guessed_experts >= 0 && workload.guessed_experts <= 1))
    fail("‹guessed experts› {}: 0 to 1 is possible", workload.guessed_experts);
  for (const double imbalance : {workload.imbalance, workload.hash_imbalance}) {
    if (!(imbalance >= 1 && std::isfinite(imbalance)))
      fail("imbalance {}: the heaviest rank has at least the mean, 1", imbalance);
  }
}

RankBatch rank_batch(const Workload& workload, const ParallelPlan& plan) {
  const std::int64_t queries = (workload.num_queries + plan.dp - 1) / plan.dp;
  QueryPart part{.start = workload.context_length, .num_tokens = workload.query_length, .num_logits = 1};
  if (workload.decode) {
    part.num_tokens += workload.num_drafts;
    part.num_logits = part.num_tokens;
  } else {
    auto found = static_cast<std::int64_t>(
        std::floor(static_cast<double>(workload.query_length) * workload.prefix_cache_hit_rate));
    if (workload.bounded_replay > 0) {
      part.decoder_begin =
          decoder_begin_of(part.start + part.num_tokens + workload.prompt_behind, workload.bounded_replay);
      // No more is found, or the decoder half's window would be another prompt's.
      found = std::min(found, part.num_encoded());
    }
    part.start += found;
    part.num_tokens -= found;
    if (workload.trains) part.num_logits = part.num_tokens;
    if (part.num_encoded() == part.num_tokens) part.num_logits = 0;
  }
  return RankBatch(static_cast<std::size_t>(queries), part);
}

std::int64_t num_rows(const RankBatch& batch) {
  std::int64_t rows = 0;
  for (const QueryPart& part : batch) rows += part.num_tokens;
  return rows;
}

std::int64_t num_logit_rows(const RankBatch& batch) {
  std::int64_t rows = 0;
  for (const QueryPart& part : batch) rows += part.num_logits;
  return rows;
}

}  // namespace baleen
