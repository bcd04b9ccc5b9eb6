// Experts that change places while ranks serve: the bits of one rank before, during and after, each token
// counted once, all ranks or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/speculate.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

const test::RandomCheckpoint& tiny() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

/// With a draft head whose blocks have half as many experts as layers.
const test::RandomCheckpoint& tiny_v41() {
  static const test::RandomCheckpoint checkpoint(preset_config("tiny-v41"), 3, "models/stories");
  return checkpoint;
}

/// Maps change at every second step, for better or worse, as soon as another one exists.
constexpr BalanceOptions kForced{
    .enabled = true, .window_steps = 3, .interval_steps = 2, .first_steps = 1, .min_gain = -1};

EngineOptions options(const ParallelPlan& plan, const BalanceOptions& balance, std::int64_t max_drafts = 0) {
  return test::on_device({.num_threads = 1,
                          .max_batch_tokens = 96,
                          .max_logit_rows = 96,
                          .max_sequences = 3,
                          .cache_tokens = 4096,
                          .max_draft_tokens = max_drafts,
                          .parallel = plan,
                          .balance = balance},
                         preset_config("tiny-flash"));
}

/// What was read, and how many tokens went through the main layers.
struct Read {
  std::vector<float> logits;
  std::int64_t num_tokens = 0;
};

/// Three sequences in ragged steps of changing size and content, each step's logits; with drafts, chains of
/// them between steps, of which some are taken back.
Read read_along(StepEngine& engine, int num_steps) {
  Read read;
  std::mt19937 random(5);
  const std::int64_t max_drafts = engine.limits().max_draft_tokens;
  std::vector<SequenceId> ids;
  std::ranges::generate_n(std::back_inserter(ids), 3, [&] { return *engine.open({}); });
  const auto note = [&](const ConstActivations<2>& logits) {
    read.logits.insert(read.logits.end(), logits.data(), logits.data() + logits.size());
  };
  for (int step = 0; step < num_steps; ++step) {
    std::vector<std::vector<TokenId>> tokens;
    std::vector<StepInput> inputs;
    const std::size_t left_out = random() % 4;  // now and then a group has no rows
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // Few different tokens at a time, so that the load of experts is uneven and wanders.
      tokens.push_back(test::random_tokens(1 + static_cast<std::int64_t>(random() % 20), 6,
                                           static_cast<std::uint32_t>(random())));
      for (TokenId& token : tokens.back()) token = (token + 40 * step) % 512;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i == left_out) continue;
      inputs.push_back({ids[i], tokens[i], WantedLogits::kAll});
      read.num_tokens += std::ssize(tokens[i]);
    }
    const Result<StepOutput> output = engine.step(inputs);
    EXPECT_TRUE(output.ok()) << output.error();
    if (!output) return read;
    note(output.value().logits);
    note(output.value().draft_logits);
    for (std::int64_t depth = 0; depth < max_drafts; ++depth) {
      const DraftInput draft{inputs.front().sequence, static_cast<TokenId>(random() % 512)};
      EXPECT_TRUE(engine.reserve(draft.sequence, std::max(max_drafts + 1, engine.limits().least_draft_room)));
      const Result<DraftOutput> drafted = engine.draft({&draft, 1}, depth);
      EXPECT_TRUE(drafted.ok()) << drafted.error();
      note(drafted.value().logits);
    }
    const SequenceId last = inputs.back().sequence;
    if (max_drafts > 0 && inputs.back().tokens.size() > 2) engine.truncate(last, engine.length(last) - 1);
  }
  for (const SequenceId id : ids) engine.close(id, false);
  return read;
}

void expect_one_ranks_bits(const ParallelPlan& plan, std::int64_t max_drafts,
                           const test::RandomCheckpoint& of = tiny()) {
  constexpr int kSteps = 14;
  const auto one = open_engine(of.path(), options({}, {}, max_drafts));
  const auto many = open_engine(of.path(), options(plan, kForced, max_drafts));
  SCOPED_TRACE(to_text(many->options().parallel));
  EXPECT_SAME_BITS(read_along(*many, kSteps).logits, read_along(*one, kSteps).logits);
  EXPECT_EQ(many->expert_load(), one->expert_load()) << "no token is counted twice";
  const ExpertBalance& balance = *many->expert_balance();
  EXPECT_EQ(balance.num_steps, kSteps);
  EXPECT_EQ(balance.num_evaluations, 7);
  EXPECT_GE(balance.num_rebalancings, 5);
  EXPECT_GE(balance.num_moved_experts, 10);
  EXPECT_EQ(balance.num_failures, 0);
}

TEST(MovingExperts, BitsOfOneRankOverGroups) {
  for (const std::int64_t max_drafts : {0, 2}) {
    expect_one_ranks_bits({.ep = 2}, max_drafts);
    expect_one_ranks_bits({.dp = 3, .redundant_experts = 1}, max_drafts);
    expect_one_ranks_bits({.dp = 4, .redundant_experts = 4}, max_drafts);
  }
}

TEST(MovingExperts, BitsOfOneRankWithSplitAttentionAndStages) {
  for (const std::int64_t max_drafts : {0, 2}) {
    expect_one_ranks_bits({.tp = 2, .o_proj_tp = 1}, max_drafts);
    expect_one_ranks_bits({.tp = 2, .o_proj_tp = 1, .redundant_experts = 2, .sequence_parallel = true},
                          max_drafts);
    expect_one_ranks_bits(
        {.dp = 2, .pp = 2, .redundant_experts = 2, .expert_placement = ExpertOrder::kRoundRobin}, max_drafts);
  }
}

/// Processors that choose as GPUs do: steps that are queued with their drafts.
TEST(MovingExperts, BlocksOfADraftHeadWithFewerExperts) {
  BALEEN_CPU_ONLY();
  expect_one_ranks_bits({.dp = 2}, 2, tiny_v41());
  expect_one_ranks_bits({.ep = 4, .redundant_experts = 4}, 2, tiny_v41());
}

TEST(MovingExperts, QueuedStepsChooseAsOneRank) {
  const auto choosing = [](const ParallelPlan& plan, const BalanceOptions& balance) {
    EngineOptions wanted = options(plan, balance, 3);
    wanted.choose_on_device = true;
    return wanted;
  };
  const test::Speculated want = test::speculate(*open_engine(tiny().path(), choosing({}, {})), true);
  const auto engine = open_engine(tiny().path(), choosing({.dp = 2, .redundant_experts = 2}, kForced));
  const test::Speculated got = test::speculate(*engine, true);
  EXPECT_EQ(got.drafted, want.drafted);
  EXPECT_EQ(got.tokens[0], want.tokens[0]);
  EXPECT_EQ(got.tokens[1], want.tokens[1]);
  EXPECT_GE(engine->expert_balance()->num_rebalancings, 5);
}

/// Experts of which each rank has a part of the inner width are copies, which move too.
TEST(MovingExperts, SplitExpertsKeepTheBitsOfThePlan) {
  BALEEN_CPU_ONLY();
  ModelConfig config = preset_config("tiny-flash");
  config.moe_intermediate_size = 2 * kWeightBlock;
  const test::RandomCheckpoint wide(config);
  const ParallelPlan plan{.dp = 4, .ep = 2, .moe_tp = 2};
  BalanceOptions never = kForced;
  never.min_gain = 2;
  const auto still = open_engine(wide.path(), options(plan, never));
  const auto moving = open_engine(wide.path(), options(plan, kForced));
  EXPECT_SAME_BITS(read_along(*moving, 8).logits, read_along(*still, 8).logits);
  EXPECT_GE(moving->expert_balance()->num_rebalancings, 2);
  EXPECT_EQ(still->expert_balance()->num_rebalancings, 0);
}

/// Every layer sends each token to as many experts as a token has, on one rank of those that have the token.
TEST(MovingExperts, LoadsOfALayerAreItsTokens) {
  BalanceOptions at_six{.enabled = true, .window_steps = 100, .interval_steps = 100, .first_steps = 6};
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 2}, ParallelPlan{.tp = 2, .o_proj_tp = 1},
        ParallelPlan{.tp = 2, .o_proj_tp = 1, .sequence_parallel = true}, ParallelPlan{.dp = 2, .pp = 2}}) {
    const auto engine = open_engine(tiny().path(), options(plan, at_six));
    SCOPED_TRACE(to_text(engine->options().parallel));
    const std::int64_t num_tokens = read_along(*engine, 6).num_tokens;
    const SequenceId sequence = *engine->open({});
    static_cast<void>(test::step(*engine, sequence, std::vector<TokenId>{1, 2, 3}));  // evaluates first
    const ExpertBalance& balance = *engine->expert_balance();
    ASSERT_EQ(balance.num_evaluations, 1);
    const ModelConfig& config = engine->config();
    for (std::int64_t block = 0; block < config.num_blocks(); ++block) {
      const std::vector<double>& loads = balance.layers[static_cast<std::size_t>(block)].before;
      const bool runs = block < config.num_hidden_layers;  // without drafts the MTP block has nothing to do
      EXPECT_NEAR(std::accumulate(loads.begin(), loads.end(), 0.0),
                  runs ? static_cast<double>(config.num_experts_per_tok * num_tokens) : 0, 1e-6)
          << "block " << block;
    }
  }
}

/// A team of which one rank cannot make other experts ready, once.
class FaultyTeam final : public RankTeam {
 public:
  FaultyTeam(std::unique_ptr<RankTeam> inner, std::vector<std::string>& calls)
      : inner_(std::move(inner)), calls_(calls) {}
  const std::vector<RankReply>& call(const RankCall& call) override {
    const bool stages = std::holds_alternative<calls::StageExperts>(call.what);
    if (stages) calls_.emplace_back("stage");
    if (std::holds_alternative<calls::PlaceExperts>(call.what)) calls_.emplace_back("place");
    if (std::holds_alternative<calls::DropExperts>(call.what)) calls_.emplace_back("drop");
    const std::vector<RankReply>& replies = inner_->call(call);
    if (!stages || num_faults_++ > 0) return replies;
    replies_ = replies;
    replies_[1].failure = "rank 1 has no memory for other experts";
    return replies_;
  }
  RankWorker& first() override { return inner_->first(); }
  [[nodiscard]] std::string place() const override { return inner_->place(); }
  [[nodiscard]] std::int64_t copied_weight_bytes() const override { return inner_->copied_weight_bytes(); }

 private:
  std::unique_ptr<RankTeam> inner_;
  std::vector<std::string>& calls_;
  std::vector<RankReply> replies_;
  int num_faults_ = 0;
};

TEST(MovingExperts, AFailureLeavesTheOldMaps) {
  auto weights = std::make_shared<const ModelWeights>(tiny().path());
  EngineOptions full = resolved(options({.dp = 2}, kForced), weights->config());
  std::vector<std::string> reports;
  full.report_balance = [&](const std::string& sentence) { reports.push_back(sentence); };
  std::vector<std::string> changes;
  RankEngine engine(std::make_unique<FaultyTeam>(std::make_unique<ThreadTeam>(weights, full), changes), full);
  const std::vector<ExpertMap> before(engine.expert_maps().begin(), engine.expert_maps().end());
  const auto one = open_engine(tiny().path(), options({}, {}));
  EXPECT_SAME_BITS(read_along(engine, 3).logits, read_along(*one, 3).logits);
  EXPECT_EQ(changes, (std::vector<std::string>{"stage", "drop"}));
  EXPECT_EQ(engine.expert_balance()->num_failures, 1);
  EXPECT_EQ(engine.expert_balance()->num_rebalancings, 0);
  EXPECT_EQ(engine.expert_balance()->last_failure, "rank 1 has no memory for other experts");
  EXPECT_TRUE(std::ranges::equal(engine.expert_maps(), before));
  EXPECT_EQ(
      reports,
      (std::vector<std::string>{"experts stay where they are: rank 1 has no memory for other experts"}));
  // And the next time they change.
  EXPECT_SAME_BITS(read_along(engine, 2).logits, read_along(*one, 2).logits);
  EXPECT_EQ(engine.expert_balance()->num_rebalancings, 1);
  EXPECT_FALSE(std::ranges::equal(engine.expert_maps(), before));
  ASSERT_EQ(reports.size(), 2);
  EXPECT_EQ(reports[1].find("experts moved in "), 0);
}

TEST(MovingExperts, ATableOfAFileHasTheBitsOfOneRank) {
  const auto one = open_engine(tiny().path(), options({}, {}));
  const std::int64_t num_blocks = one->config().num_blocks();
  std::mt19937 random(9);
  ExpertTable table;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    std::vector<std::int32_t>& slots = table.emplace_back(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    for (int i = 0; i < 4; ++i) slots.push_back(static_cast<std::int32_t>(random() % 8));
    std::ranges::shuffle(slots, random);
  }
  EngineOptions from_file = options({.dp = 4}, {});
  from_file.expert_table = std::make_shared<const ExpertTable>(table);
  const auto many = open_engine(tiny().path(), from_file);
  EXPECT_EQ(many->options().parallel.redundant_experts, 4);
  EXPECT_SAME_BITS(read_along(*many, 4).logits, read_along(*one, 4).logits);
  ASSERT_EQ(std::ssize(many->expert_maps()), num_blocks);
  for (std::size_t block = 0; block < table.size(); ++block)
    EXPECT_TRUE(std::ranges::equal(many->expert_maps()[block].physical_to_logical(), table[block]));
  EXPECT_EQ(many->expert_balance(), nullptr);
}

TEST(MovingExperts, WhatCannotBeIsRefused) {
  const auto refusal = [](const EngineOptions& wanted) -> std::string {
    try {
      static_cast<void>(open_engine(tiny().path(), wanted));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal(options({}, kForced)).find("‹balancing› and ‹expert map›: every rank has all"),
            std::string::npos);
  EXPECT_NE(refusal(options({.pp = 2}, kForced)).find("‹balancing›"), std::string::npos);
  BalanceOptions wrong = kForced;
  wrong.interval_steps = 0;
  EXPECT_NE(refusal(options({.dp = 2}, wrong)).find("‹balancing interval› 0"), std::string::npos);
  EngineOptions short_table = options({.dp = 2}, {});
  short_table.expert_table = std::make_shared<const ExpertTable>(3, std::vector<std::int32_t>(8));
  EXPECT_NE(refusal(short_table).find("‹expert map›: 3 layers"), std::string::npos);
}

}  // namespace
}  // namespace baleen
