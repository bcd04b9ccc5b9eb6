#include "simulator/graph/workload.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "model/presets.h"

namespace baleen {
namespace {

void expect_error(const Workload& workload, const std::string& part) {
  try {
    validate(workload, preset_config("flash"));
    ADD_FAILURE() << "accepted: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Workload, TokensOfAStep) {
  EXPECT_DOUBLE_EQ(Workload{}.tokens_per_step(), 1);
  EXPECT_DOUBLE_EQ((Workload{.num_drafts = 2, .draft_acceptance = {0.8, 0.5}}.tokens_per_step()),
                   1 + 0.8 + 0.4);
  EXPECT_DOUBLE_EQ((Workload{.num_drafts = 3, .draft_acceptance = {0.5}}.tokens_per_step()), 1.875)
      << "the last rate holds for the rest";
  EXPECT_DOUBLE_EQ((Workload{.num_drafts = 4}.tokens_per_step()), 1 + 0.9 + 0.54 + 0.216 + 0.0432);
  EXPECT_DOUBLE_EQ((Workload{.num_drafts = 5, .draft_acceptance = {1}}.tokens_per_step()), 6);
  EXPECT_DOUBLE_EQ((Workload{.num_drafts = 5, .draft_acceptance = {0}}.tokens_per_step()), 1);
}

TEST(Workload, AcceptanceAsItIsPublished) {
  const std::vector<double> published{0.579, 0.447, 0.316, 0.237, 0.158};
  const Workload workload{.num_drafts = 5, .draft_acceptance = acceptance_of_published(published)};
  EXPECT_NEAR(workload.tokens_per_step(), 2.737, 1e-12);
  EXPECT_NEAR(workload.draft_acceptance[1], 0.447 / 0.579, 1e-12);
  EXPECT_EQ(acceptance_of_published(std::vector<double>{0.5, 0, 0}), (std::vector<double>{0.5, 0, 0}));
  for (const std::vector<double>& wrong : {std::vector<double>{0.5, 0.6}, {1.5}, {-0.1}})
    EXPECT_THROW(static_cast<void>(acceptance_of_published(wrong)), Error);
}

TEST(Workload, QueriesAreSharedOutAndRoundedUp) {
  const ParallelPlan plan{.dp = 4};
  EXPECT_EQ(rank_batch({.num_queries = 10}, plan).size(), 3u);
  EXPECT_EQ(rank_batch({.num_queries = 1}, plan).size(), 1u);
  EXPECT_EQ(rank_batch({.num_queries = 8}, plan).size(), 2u);
}

TEST(Workload, HitsMoveTokensToTheContext) {
  Workload work{.query_length = 1000, .context_length = 24, .prefix_cache_hit_rate = 0.3337};
  RankBatch batch = rank_batch(work, {.dp = 1});
  EXPECT_EQ(batch.front().start, 24 + 333);
  EXPECT_EQ(batch.front().num_tokens, 667);
  EXPECT_EQ(batch.front().num_logits, 1);
  work.decode = true;
  work.num_drafts = 2;
  work.query_length = 1;
  batch = rank_batch(work, {.dp = 1});
  EXPECT_EQ(batch.front().start, 24) << "not while decoding";
  EXPECT_EQ(batch.front().num_tokens, 3);
  EXPECT_EQ(num_logit_rows(batch), 3);
}

TEST(Workload, AtLeastOneTokenIsLeft) {
  const RankBatch batch = rank_batch({.query_length = 1, .prefix_cache_hit_rate = 0.999}, {.dp = 1});
  EXPECT_EQ(num_rows(batch), 1);
}

TEST(Workload, BoundedPromptsEndBeforeTheDecoderHalfButForTheirLastTokens) {
  const Workload work{.query_length = 1000, .prefix_cache_hit_rate = 0.5, .bounded_replay = 128};
  EXPECT_EQ(rank_batch(work, {.dp = 1}).front().num_encoded(), 500 - 128);
  EXPECT_EQ(rank_batch({.query_length = 100, .bounded_replay = 128}, {.dp = 1}).front().num_encoded(), 0);
  // Where more is cached, it is found up to the decoder half.
  const Workload cached{.query_length = 1000, .prefix_cache_hit_rate = 0.95, .bounded_replay = 128};
  EXPECT_EQ(rank_batch(cached, {.dp = 1}).front().start, 872);
  EXPECT_EQ(num_rows(rank_batch(cached, {.dp = 1})), 128);
  // Of a prompt in pieces the last ones have those tokens.
  const auto piece = [](std::int64_t behind) {
    return rank_batch({.query_length = 400, .bounded_replay = 128, .prompt_behind = behind}, {.dp = 1})
        .front();
  };
  EXPECT_EQ(piece(100).num_encoded(), 372);
  EXPECT_EQ(piece(100).num_logits, 1);
  EXPECT_EQ(piece(128).num_encoded(), 400);
  EXPECT_EQ(piece(128).num_logits, 0);
  EXPECT_NO_THROW(validate(work, preset_config("v41-flash")));
  expect_error({.query_length = 1000, .bounded_replay = 128}, "this model has no decoder half");
  expect_error({.decode = true, .bounded_replay = 128}, "‹bounded replay› 128: is of prompts");
}

TEST(Workload, WhatMeansNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_NO_THROW(validate(Workload{}, preset_config("flash")));
  expect_error({.num_queries = 0}, "‹queries› 0");
  expect_error({.num_queries = -3}, "‹queries› -3");
  expect_error({.num_queries = kHuge}, "‹queries›");
  expect_error({.query_length = 0}, "‹query length› 0");
  expect_error({.query_length = kHuge}, "‹query length›");
  expect_error({.query_length = 2, .decode = true}, "‹query length› 2 with ‹decoding›");
  expect_error({.context_length = -1}, "‹context length› -1");
  expect_error({.context_length = kHuge}, "the model has 1048576");
  expect_error({.query_length = kHuge, .context_length = kHuge}, "the model has 1048576");
  expect_error({.context_length = 1 << 20}, "the model has 1048576");
  expect_error({.num_queries = 1 << 20, .query_length = 1 << 20}, "rows");
  expect_error({.decode = true, .num_drafts = -1}, "‹drafts› -1");
  expect_error({.decode = true, .num_drafts = 17}, "‹drafts› 17");
  for (const double rate : {-0.1, 1.1, nan})
    expect_error({.draft_acceptance = {0.5, rate}}, "‹draft acceptance›");
  for (const double rate : {-0.1, 1.0, nan})
    expect_error({.prefix_cache_hit_rate = rate}, "‹prefix hit rate›");
  for (const double imbalance : {0.9, -1.0, nan, infinity}) {
    expect_error({.imbalance = imbalance}, "imbalance");
    expect_error({.hash_imbalance = imbalance}, "imbalance");
  }
}

}  // namespace
}  // namespace baleen
