// A DSpark head over an engine: what it drafts depends on the tokens of a sequence alone, not on how they
// came, who else is in a batch, what was drafted before or which ranks compute; and no reply depends on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/engine.h"
#include "rank_engine/rank_engine.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler/recorded_reply.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/speculate.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512, kBlock = 5;

const test::RandomCheckpoint& checkpoint() {
  static const test::RandomCheckpoint made("tiny-dspark", 5);
  return made;
}

EngineOptions options(Precision precision = Precision::kReleased, std::int64_t max_draft_tokens = kBlock) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = 2,
          .max_batch_tokens = 600,
          .max_logit_rows = 64,
          .max_sequences = 3,
          .cache_tokens = 8 * kPageTokens,
          .max_draft_tokens = max_draft_tokens};
}

/// Feeds a sequence from where it is; logits are of no interest.
void feed(StepEngine& engine, SequenceId sequence, std::span<const TokenId> tokens, std::size_t chunk) {
  for (std::size_t at = 0; at < tokens.size(); at += chunk) {
    static_cast<void>(test::step(engine, sequence, tokens.subspan(at, std::min(chunk, tokens.size() - at)),
                                 WantedLogits::kNone));
  }
}

/// Logits [depths, V] of the drafts that follow `fed`, a token for each depth.
std::vector<float> drafts(StepEngine& engine, SequenceId sequence, std::span<const TokenId> fed) {
  EXPECT_TRUE(engine.reserve(sequence, engine.limits().least_draft_room));
  std::vector<float> logits;
  for (std::size_t depth = 0; depth < fed.size(); ++depth) {
    const DraftInput input{sequence, fed[depth]};
    const Result<DraftOutput> output = engine.draft({&input, 1}, static_cast<std::int64_t>(depth));
    if (!output) throw std::runtime_error(output.error());
    const auto row = output.value().logits.row(0);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

const std::vector<TokenId> kFed{3, 500, 77, 3, 8};

class Dspark : public testing::TestWithParam<Precision> {};

TEST_P(Dspark, DraftsAreThoseOfTheTokensHoweverTheyCame) {
  const std::vector<TokenId> tokens = test::random_tokens(383, kVocab, 1);
  Engine engine(checkpoint().path(), options(GetParam()));
  for (const std::size_t length : {1, 2, 127, 128, 129, 251, 256, 383}) {
    const std::span<const TokenId> prompt = std::span(tokens).first(length);
    const SequenceId whole = *engine.open({});
    feed(engine, whole, prompt, prompt.size());
    const std::vector<float> want = drafts(engine, whole, kFed);
    EXPECT_SAME_BITS(drafts(engine, whole, kFed), want) << "again";
    engine.close(whole, false);
    for (const std::size_t chunk : {std::size_t{7}, std::size_t{100}}) {
      const SequenceId pieces = *engine.open({});
      feed(engine, pieces, prompt, chunk);
      EXPECT_SAME_BITS(drafts(engine, pieces, kFed), want) << length << " by " << chunk;
      engine.close(pieces, false);
    }
  }
}

/// Every step ends with tokens that are taken back, behind drafts that wrote rows where the next step's come.
TEST_P(Dspark, NeitherDraftsNorStepsTakenBackShow) {
  const std::vector<TokenId> tokens = test::random_tokens(270, kVocab, 2);
  const std::vector<TokenId> wrong = test::random_tokens(5, kVocab, 3);
  Engine engine(checkpoint().path(), options(GetParam()));
  const SequenceId sequence = *engine.open({});
  feed(engine, sequence, std::span(tokens).first(240), 240);
  for (std::size_t at = 240; at < tokens.size();) {
    static_cast<void>(drafts(engine, sequence, wrong));
    const std::size_t right = std::min(1 + at % 3, tokens.size() - at);
    std::vector<TokenId> step(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                              tokens.begin() + static_cast<std::ptrdiff_t>(at + right));
    step.insert(step.end(), wrong.begin(), wrong.begin() + 3);
    static_cast<void>(test::step(engine, sequence, step));
    at += right;
    engine.truncate(sequence, static_cast<std::int64_t>(at));
  }
  const SequenceId plain = *engine.open({});
  feed(engine, plain, tokens, tokens.size());
  EXPECT_SAME_BITS(drafts(engine, sequence, kFed), drafts(engine, plain, kFed));
}

TEST_P(Dspark, BatchCompositionDoesNotShow) {
  const std::vector<TokenId> tokens = test::random_tokens(280, kVocab, 1);
  Engine engine(checkpoint().path(), options(GetParam()));
  std::vector<SequenceId> sequences;
  std::vector<std::vector<float>> alone;
  for (const std::size_t length : {20, 255, 280}) {
    sequences.push_back(*engine.open({}));
    feed(engine, sequences.back(), std::span(tokens).first(length), 600);
    alone.push_back(drafts(engine, sequences.back(), kFed));
  }
  for (std::size_t depth = 0; depth < kFed.size(); ++depth) {
    std::vector<DraftInput> inputs;
    for (std::size_t i = 3; i-- > 0;) inputs.push_back({sequences[i], kFed[depth]});
    const auto together = engine.draft(inputs, static_cast<std::int64_t>(depth));
    ASSERT_TRUE(together);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_SAME_BITS(together.value().logits.row(static_cast<std::int64_t>(i)),
                       std::span(alone[2 - i]).subspan(depth * kVocab, kVocab));
    }
  }
}

/// Fewer rows in a step than all sequences' drafts have.
TEST_P(Dspark, MoreDraftsThanAStepHasRowsAreThoseOfEach) {
  const std::vector<TokenId> tokens = test::random_tokens(40, kVocab, 1);
  EngineOptions narrow = options(GetParam());
  narrow.max_batch_tokens = 8;
  narrow.max_logit_rows = 3;
  Engine engine(checkpoint().path(), options(GetParam())), few(checkpoint().path(), narrow);
  std::vector<DraftInput> inputs;
  std::vector<std::vector<float>> want;
  for (const std::size_t length : {11, 40, 25}) {
    const std::span<const TokenId> prompt = std::span(tokens).first(length);
    const SequenceId wide = *engine.open({}), slow = *few.open({});
    feed(engine, wide, prompt, 600);
    want.push_back(drafts(engine, wide, kFed));
    feed(few, slow, prompt, 8);
    ASSERT_TRUE(few.reserve(slow, few.limits().least_draft_room));
    inputs.push_back({slow, 0});
  }
  for (std::size_t depth = 0; depth < kFed.size(); ++depth) {
    for (DraftInput& input : inputs) input.token = kFed[depth];
    const auto together = few.draft(inputs, static_cast<std::int64_t>(depth));
    ASSERT_TRUE(together) << together.error();
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_SAME_BITS(together.value().logits.row(static_cast<std::int64_t>(i)),
                       std::span(want[i]).subspan(depth * kVocab, kVocab));
    }
  }
}

TEST_P(Dspark, AFoundPrefixDraftsAsAColdOne) {
  EngineOptions with = options(GetParam());
  with.prefix_cache = true;
  with.cached_window_pages = 4;
  Engine engine(checkpoint().path(), with), cold(checkpoint().path(), options(GetParam()));
  const std::vector<TokenId> tokens = test::random_tokens(530, kVocab, 4);
  const SequenceId first = *engine.open(tokens);
  feed(engine, first, tokens, 300);
  engine.close(first, true);
  const std::vector<TokenId> prompt(tokens.begin(), tokens.begin() + 513);
  const SequenceId second = *engine.open(prompt);
  ASSERT_EQ(engine.length(second), 512);
  feed(engine, second, std::span(prompt).subspan(512), 1);
  const SequenceId plain = *cold.open({});
  feed(cold, plain, prompt, 600);
  EXPECT_SAME_BITS(drafts(engine, second, kFed), drafts(cold, plain, kFed));
}

TEST_P(Dspark, PagesFromDiskDraftAsComputedOnes) {
  const test::TemporaryFolder folder;
  const std::vector<TokenId> tokens = test::random_tokens(1400, kVocab, 6);
  EngineOptions cold_options = options(GetParam());
  cold_options.max_batch_tokens = 1400;
  Engine cold(checkpoint().path(), cold_options);
  const SequenceId plain = *cold.open({});
  feed(cold, plain, tokens, 1400);
  const std::vector<float> want = drafts(cold, plain, kFed);
  for (const WindowPolicy policy : {WindowPolicy::kAll, WindowPolicy::kNone}) {
    EngineOptions with = cold_options;
    with.disk = DiskCacheOptions{.folder = folder / (policy == WindowPolicy::kAll ? "all" : "none"),
                                 .budget_bytes = std::int64_t{1} << 30,
                                 .window_policy = policy};
    {
      Engine engine(checkpoint().path(), with);
      const SequenceId sequence = *engine.open(tokens);
      feed(engine, sequence, tokens, 1400);
      engine.close(sequence, true);
    }
    Engine engine(checkpoint().path(), with);
    const SequenceId sequence = *engine.open(tokens);
    EXPECT_LT(0, engine.length(sequence));
    feed(engine, sequence, std::span(tokens).subspan(static_cast<std::size_t>(engine.length(sequence))),
         1400);
    EXPECT_SAME_BITS(drafts(engine, sequence, kFed), want);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryPrecision, Dspark,
                         testing::Values(Precision::kExact, Precision::kBf16, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

void expect_drafts_of_one_rank(const test::RandomCheckpoint& of, std::initializer_list<ParallelPlan> plans) {
  EngineOptions with = options();
  with.device = {};
  with.num_threads = 1;
  with.choose_on_device = true;
  const test::Speculated want = test::speculate(*open_engine(of.path(), with), false);
  for (const ParallelPlan& plan : plans) {
    EngineOptions ranks = with;
    ranks.parallel = plan;
    const std::unique_ptr<ModelEngine> engine = open_engine(of.path(), ranks);
    SCOPED_TRACE(to_text(engine->options().parallel));
    for (const bool queued : {false, true}) {
      if (queued && !engine->limits().queues) continue;
      const test::Speculated got = test::speculate(*engine, queued);
      EXPECT_EQ(got.drafted, want.drafted);
      for (int i : {0, 1}) EXPECT_EQ(got.tokens[i], want.tokens[i]);
    }
  }
}

TEST(DsparkRanks, DraftAsOneRank) {
  expect_drafts_of_one_rank(checkpoint(), {{.dp = 2},
                                           {.ep = 2},
                                           {.cp = 2},
                                           {.pp = 2},
                                           {.pp = 4},  // reads layers of two earlier stages
                                           {.dp = 2, .prefill_groups = 1},
                                           {.dp = 2, .dual_batch_overlap = true}});
}

/// V4.1's blocks have half as many experts as its layers, and each is shared out by its own number.
TEST(DsparkRanks, WithFewerExpertsThanLayersDraftAsOneRank) {
  const test::RandomCheckpoint v41(preset_config("tiny-v41"), 5, "models/stories");
  expect_drafts_of_one_rank(v41, {{.dp = 2},
                                  {.ep = 4},
                                  {.cp = 2},
                                  {.pp = 2},
                                  {.dp = 2, .pp = 3},
                                  {.dp = 2, .redundant_experts = 2},
                                  {.dp = 2, .prefill_groups = 1}});
}

/// Sums over heads come in another order there, so tokens may differ; drafts are still those of the rows.
TEST(DsparkRanks, TensorParallelDraftsLinkByLinkAsQueued) {
  for (const ParallelPlan& plan :
       {ParallelPlan{.tp = 2}, ParallelPlan{.tp = 2, .o_proj_tp = 1, .sequence_parallel = true}}) {
    EngineOptions ranks = options();
    ranks.device = {};
    ranks.num_threads = 1;
    ranks.choose_on_device = true;
    ranks.parallel = plan;
    const std::unique_ptr<ModelEngine> engine = open_engine(checkpoint().path(), ranks);
    SCOPED_TRACE(to_text(engine->options().parallel));
    const test::Speculated by_link = test::speculate(*engine, false), queued = test::speculate(*engine, true);
    EXPECT_EQ(queued.drafted, by_link.drafted);
    for (int i : {0, 1}) EXPECT_EQ(queued.tokens[i], by_link.tokens[i]);
  }
}

/// Greedy and sampled requests, some behind one beginning, more than the engine runs at a time.
std::vector<std::vector<TokenId>> replies(std::int64_t speculate, bool chooses, SchedulerStats& stats) {
  EngineOptions with = options(Precision::kReleased, speculate);
  with.prefix_cache = true;
  with.choose_on_device = chooses;
  Engine engine(checkpoint().path(), with);
  Scheduler scheduler(engine, fake_tokenizer(), {.speculate = speculate}, [] { return 0.0; });
  const std::vector<TokenId> tokens = test::random_tokens(700, kVocab, 1);
  std::vector<std::shared_ptr<RecordedReply>> recorded;
  for (const std::int64_t length : {700, 30, 600, 257, 1}) {
    Request request;
    request.prompt.assign(tokens.begin(), tokens.begin() + length);
    request.sampling.temperature = recorded.size() % 2 == 0 ? 0 : 0.3;
    request.sampling.seed = recorded.size();
    request.max_tokens = 40;
    recorded.push_back(std::make_shared<RecordedReply>());
    EXPECT_TRUE(scheduler.submit(std::move(request), recorded.back()).has_value());
  }
  while (scheduler.turn()) {
  }
  stats = scheduler.stats();
  std::vector<std::vector<TokenId>> all;
  for (const auto& reply : recorded) {
    EXPECT_EQ(reply->summary->end, ReplyEnd::kLength) << reply->summary->error;
    all.push_back(reply->ids());
  }
  return all;
}

TEST(DsparkReplies, AreTheSameAtEveryDepth) {
  SchedulerStats stats;
  const std::vector<std::vector<TokenId>> want = replies(0, false, stats);
  EXPECT_EQ(stats.drafted_tokens, 0);
  for (const bool chooses : {false, true}) {
    for (std::int64_t speculate = 1; speculate <= kBlock; ++speculate) {
      EXPECT_EQ(replies(speculate, chooses, stats), want) << speculate << " drafts";
      EXPECT_LT(0, stats.drafted_tokens);
    }
  }
}

std::string refusal(const EngineOptions& wanted) {
  try {
    static_cast<void>(resolved(wanted, preset_config("tiny-dspark")));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DsparkOptions, MoreThanABlockIsRefused) {
  EXPECT_EQ(refusal(options(Precision::kReleased, 6)),
            "draft tokens: 6 wanted, the DSpark head drafts 5 at most");
}

TEST(DsparkOptions, AStepHoldsABlock) {
  EngineOptions narrow = options(Precision::kReleased, 1);
  narrow.max_logit_rows = 2;
  narrow.max_batch_tokens = 5;
  EXPECT_EQ(refusal(narrow), "");
  narrow.max_batch_tokens = 4;
  EXPECT_EQ(refusal(narrow), "tokens a step: 4 wanted, the DSpark head drafts with at least 5");
  narrow.max_draft_tokens = 0;
  EXPECT_EQ(refusal(narrow), "");
}

}  // namespace
}  // namespace baleen
