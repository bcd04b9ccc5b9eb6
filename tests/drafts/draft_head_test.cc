// The contract of draft heads: one that the engine has never heard of drafts, is checked, and takes part in
// prefix cache, ranks and plans, without a word about it anywhere else.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "drafts/heads/draft_heads.h"
#include "engine/engine.h"
#include "engine/engine_limits.h"
#include "rank_engine/rank_engine.h"
#include "scheduler/scheduler.h"
#include "tests/drafts/alternating_head.h"
#include "tests/scheduler/recorded_reply.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/speculate.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512;

/// Without blocks behind its layers.
ModelConfig layers_alone() {
  ModelConfig config = with_layers(preset_config("tiny-flash"), 3);
  config.num_nextn_predict_layers = 0;
  config.compress_ratios.resize(3);
  return config;
}

const test::RandomCheckpoint& checkpoint() {
  static const test::RandomCheckpoint made(layers_alone(), 5);
  return made;
}

EngineOptions options(std::int64_t max_draft_tokens) {
  return {.num_threads = 1,
          .max_batch_tokens = 300,
          .max_logit_rows = 64,
          .max_sequences = 3,
          .cache_tokens = 8 * kPageTokens,
          .draft_head = max_draft_tokens > 0 ? &test::kAlternatingHead : nullptr,
          .max_draft_tokens = max_draft_tokens};
}

std::vector<TokenId> chain(StepEngine& engine, SequenceId sequence, TokenId newest, std::int64_t count) {
  EXPECT_TRUE(engine.reserve(sequence, std::max(count, engine.limits().least_draft_room)));
  return test::draft_by_link(engine, sequence, newest, count);
}

/// Whether blocks of a head are bound and whether it is computed is said in two places.
TEST(DraftHeads, WhatIsComputedIsInTheRegistry) {
  for (const DraftKind kind : {DraftKind::kMtp, DraftKind::kDspark}) {
    ModelConfig config = preset_config("tiny-flash");
    config.draft_kind = kind;
    EXPECT_EQ(draft_head_of(config) != nullptr, is_computed(kind)) << draft_head_name(kind);
    EXPECT_EQ(draft_head_of(without_drafts(config)), nullptr);
  }
}

TEST(ADraftHead, SeesWhatTheSequenceHasAlsoAfterAStepIsTakenBack) {
  Engine engine(checkpoint().path(), options(3));
  const SequenceId sequence = *engine.open({});
  static_cast<void>(test::step(engine, sequence, std::vector<TokenId>{5, 6, 7}, WantedLogits::kNone));
  EXPECT_EQ(chain(engine, sequence, 8, 3), (std::vector<TokenId>{7, 8, 7}));
  const StepOutput output = test::step(engine, sequence, std::vector<TokenId>{8, 9, 10, 11});
  EXPECT_TRUE(output.draft_logits.empty());
  EXPECT_EQ(chain(engine, sequence, 12, 2), (std::vector<TokenId>{11, 12}));
  engine.truncate(sequence, 5);  // 5 6 7 8 9
  EXPECT_EQ(chain(engine, sequence, 1, 3), (std::vector<TokenId>{9, 1, 9}));
}

TEST(ADraftHead, HasTheRoomThatItWants) {
  Engine engine(checkpoint().path(), options(3));
  EXPECT_EQ(engine.limits().least_draft_room, 6);
  const SequenceId sequence = *engine.open({});
  static_cast<void>(test::step(engine, sequence, test::random_tokens(252, kVocab, 1), WantedLogits::kNone));
  const DraftInput input{sequence, 1};
  EXPECT_FALSE(engine.draft({&input, 1}, 0));  // 252 to 257 are on two pages
  ASSERT_TRUE(engine.reserve(sequence, 6));
  EXPECT_TRUE(engine.draft({&input, 1}, 0));
}

TEST(ADraftHead, OfBatchesIsThatOfEachSequence) {
  Engine engine(checkpoint().path(), options(3));
  const test::Speculated by_link = test::speculate(engine, false);
  Engine plain(checkpoint().path(), options(0));
  for (int i : {0, 1}) {
    // What the engine would say without drafts.
    const std::vector<TokenId> prompt = test::random_tokens(236 + i, kVocab, 3);
    const SequenceId sequence = *plain.open({});
    StepOutput output = test::step(plain, sequence, prompt, WantedLogits::kLast);
    for (const TokenId token : by_link.tokens[i]) {
      ASSERT_EQ(token, test::best(output));
      output = test::step(plain, sequence, {&token, 1}, WantedLogits::kLast);
    }
    plain.close(sequence, false);
  }
  EngineOptions with = options(3);
  with.choose_on_device = true;
  Engine queueing(checkpoint().path(), with);
  const test::Speculated queued = test::speculate(queueing, true);
  EXPECT_EQ(queued.drafted, by_link.drafted);
  EXPECT_EQ(queued.confidence, by_link.confidence);
  for (int i : {0, 1}) EXPECT_EQ(queued.tokens[i], by_link.tokens[i]);
}

TEST(ADraftHead, SaysHowSureItIsOfEachDraft) {
  EngineOptions with = options(3);
  with.choose_on_device = true;
  Engine engine(checkpoint().path(), with);
  EXPECT_TRUE(engine.limits().tells_confidence);
  EXPECT_FALSE(engine_limits(layers_alone(), resolved(options(0), layers_alone())).tells_confidence);
  const SequenceId a = *engine.open({}), b = *engine.open({});
  for (const SequenceId id : {a, b})
    static_cast<void>(test::step(engine, id, std::vector<TokenId>{5, 6, 7}, WantedLogits::kNone));
  for (const SequenceId id : {a, b}) ASSERT_TRUE(engine.reserve(id, 6));
  const std::vector<DraftInput> inputs{{a, 8}, {b, 9}};
  const Result<DraftOutput> link = engine.draft(inputs, 0);
  ASSERT_TRUE(link);
  const auto vector_of = [](std::span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(vector_of(link.value().confidence),
            (std::vector<float>{test::alternating_confidence(8, 0), test::alternating_confidence(9, 0)}));
  // b drafts more than a: places of the device are by depth, those of the output by sequence.
  const std::vector<SampleRow> draws(3);
  const TokenId of_a = 8, of_b = 9;
  const std::vector<StepInput> step{
      {.sequence = a,
       .tokens = {&of_a, 1},
       .draws = std::span(draws).first(2),
       .wants_draft_logits = false,
       .num_drafts = 1},
      {.sequence = b, .tokens = {&of_b, 1}, .draws = draws, .wants_draft_logits = false, .num_drafts = 2}};
  ASSERT_FALSE(engine.queue(step));
  const Result<StepOutput> output = engine.collect();
  ASSERT_TRUE(output);
  EXPECT_EQ(vector_of(output.value().confidence),
            (std::vector<float>{test::alternating_confidence(8, 0), test::alternating_confidence(9, 0),
                                test::alternating_confidence(7, 1)}));
}

TEST(ADraftHead, OfGroupsOfRanksSaysTheSame) {
  EngineOptions with = options(3);
  with.choose_on_device = true;
  Engine alone(checkpoint().path(), with);
  with.parallel = {.num_devices = 2, .dp = 2};
  const std::unique_ptr<ModelEngine> groups = open_engine(checkpoint().path(), with);
  EXPECT_TRUE(groups->limits().tells_confidence);
  for (const bool queued : {false, true}) {
    const test::Speculated want = test::speculate(alone, queued), got = test::speculate(*groups, queued);
    EXPECT_EQ(got.drafted, want.drafted);
    EXPECT_EQ(got.confidence, want.confidence);
    EXPECT_EQ(got.confidence.size(), got.drafted.size());
  }
}

struct Outcome {
  std::vector<std::vector<TokenId>> replies;
  SchedulerStats stats;
};

/// Greedy and sampled requests, some behind one beginning, more than the engine runs at a time.
Outcome serve(ModelEngine& engine, std::int64_t speculate) {
  Scheduler scheduler(engine, fake_tokenizer(), {.speculate = speculate}, [] { return 0.0; });
  const std::vector<TokenId> tokens = test::random_tokens(700, kVocab, 1);
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (const std::int64_t length : {700, 30, 600, 257, 650, 1}) {
    Request request;
    request.prompt.assign(tokens.begin(), tokens.begin() + length);
    request.sampling.temperature = replies.size() % 2 == 0 ? 0 : 0.5;
    request.sampling.seed = replies.size();
    request.max_tokens = 60;
    replies.push_back(std::make_shared<RecordedReply>());
    EXPECT_TRUE(scheduler.submit(std::move(request), replies.back()).has_value());
  }
  while (scheduler.turn()) {
  }
  Outcome outcome{.replies = {}, .stats = scheduler.stats()};
  for (const auto& reply : replies) {
    EXPECT_EQ(reply->summary->end, ReplyEnd::kLength) << reply->summary->error;
    outcome.replies.push_back(reply->ids());
  }
  return outcome;
}

TEST(ADraftHead, LeavesEveryReplyAsItIs) {
  const auto run = [&](std::int64_t drafts, bool chooses) {
    EngineOptions with = options(drafts);
    with.prefix_cache = true;
    with.choose_on_device = chooses;
    Engine engine(checkpoint().path(), with);
    return serve(engine, drafts);
  };
  const Outcome alone = run(0, false);
  EXPECT_EQ(alone.stats.drafted_tokens, 0);
  for (const bool chooses : {false, true}) {
    for (const std::int64_t drafts : {1, 4}) {
      const Outcome outcome = run(drafts, chooses);
      EXPECT_EQ(outcome.replies, alone.replies) << drafts << " drafts";
      EXPECT_LT(0, outcome.stats.drafted_tokens);
      EXPECT_LT(0, outcome.stats.accepted_tokens);
      EXPECT_LT(outcome.stats.accepted_tokens, outcome.stats.drafted_tokens);
    }
  }
}

TEST(ADraftHead, GoesWithASequenceToAnotherGroup) {
  EngineOptions with = options(3);
  Engine alone(checkpoint().path(), with);
  with.parallel = {.num_devices = 2, .dp = 2, .prefill_groups = 1};
  const std::unique_ptr<ModelEngine> groups = open_engine(checkpoint().path(), with);
  const test::Speculated want = test::speculate(alone, false), got = test::speculate(*groups, false);
  EXPECT_EQ(got.drafted, want.drafted);
  for (int i : {0, 1}) EXPECT_EQ(got.tokens[i], want.tokens[i]);
  EXPECT_EQ(groups->transfer_stats()->num_sequences, 2);
}

TEST(ADraftHead, TakesWhatItsTraitsSay) {
  const MemoryPlan without = plan_memory(layers_alone(), 0, resolved(options(0), layers_alone()));
  EngineOptions with = options(4);
  with.max_draft_tokens = 0;
  with.drafts = true;
  const MemoryPlan following = plan_memory(layers_alone(), 0, resolved(with, layers_alone()));
  EXPECT_EQ(following.activation_bytes - without.activation_bytes,
            Arena::bytes_for<TokenId>(with.max_sequences));
  EXPECT_THROW(static_cast<void>(resolved(options(5), layers_alone())), Error);  // it drafts 4 at most
  with.draft_head = nullptr;
  EXPECT_THROW(static_cast<void>(resolved(with, layers_alone())), Error);  // the model has none of its own
}

}  // namespace
}  // namespace baleen
