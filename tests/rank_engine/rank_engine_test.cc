// An engine over ranks against one of one rank: the same sequences in the same ragged steps.
#include "rank_engine/rank_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/device_weights.h"
#include "model/stage_layers.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

const test::RandomCheckpoint& tiny() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

/// DeepSeek-V4.1 in small: layers that read what others make, tables of n-grams, and a DSpark head whose
/// blocks have half as many experts as layers.
const test::RandomCheckpoint& tiny_v41() {
  static const test::RandomCheckpoint checkpoint(preset_config("tiny-v41"), 3, "models/stories");
  return checkpoint;
}

EngineOptions options(const ParallelPlan& plan) {
  return test::on_device({.num_threads = 1,
                          .max_batch_tokens = 128,
                          .max_logit_rows = 128,
                          .max_sequences = 4,
                          .cache_tokens = 4096,
                          .max_draft_tokens = 2,
                          .parallel = plan,
                          .overlap = {.least_prompt_rows = 2, .least_decode_rows = 2}},
                         preset_config("tiny-flash"));
}

/// Three sequences through ragged steps with all their logits, drafts, and tokens that are taken back.
std::vector<float> work(StepEngine& engine) {
  std::vector<float> seen;
  const auto note = [&](const ConstActivations<2>& logits) {
    seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
  };
  std::vector<SequenceId> ids;
  std::vector<std::vector<TokenId>> tokens;
  for (std::uint32_t i = 0; i < 3; ++i) {
    tokens.push_back(test::random_tokens(60, 512, i + 1));
    ids.push_back(*engine.open(tokens.back()));
  }
  const auto run = [&](std::initializer_list<std::size_t> which, std::size_t begin, std::size_t count,
                       WantedLogits wanted) {
    std::vector<StepInput> inputs;
    for (const std::size_t i : which)
      inputs.push_back({ids[i], std::span(tokens[i]).subspan(begin, count), wanted});
    const Result<StepOutput> output = engine.step(inputs);
    ASSERT_TRUE(output.ok()) << output.error();
    note(output.value().logits);
    note(output.value().draft_logits);
  };
  run({2, 0}, 0, 33, WantedLogits::kAll);
  run({1}, 0, 40, WantedLogits::kNone);
  run({0}, 33, 1, WantedLogits::kLast);
  run({1}, 40, 3, WantedLogits::kAll);
  for (std::int64_t depth = 0; depth < 2; ++depth) {
    const std::vector<DraftInput> drafts{{ids[1], 7}, {ids[0], 9}};
    const std::int64_t room = std::max<std::int64_t>(3, engine.limits().least_draft_room);
    EXPECT_TRUE(engine.reserve(ids[0], room) && engine.reserve(ids[1], room));
    const Result<DraftOutput> output = engine.draft(drafts, depth);
    EXPECT_TRUE(output.ok());
    note(output.value().logits);
  }
  engine.truncate(ids[1], 41);
  EXPECT_EQ(engine.length(ids[1]), 41);
  run({1}, 41, 2, WantedLogits::kAll);
  engine.close(ids[1], false);
  run({0}, 34, 5, WantedLogits::kAll);
  return seen;
}

void expect_one_ranks_bits(const ParallelPlan& plan, const test::RandomCheckpoint& of = tiny()) {
  const std::unique_ptr<ModelEngine> one = open_engine(of.path(), options({}));
  const std::unique_ptr<ModelEngine> many = open_engine(of.path(), options(plan));
  SCOPED_TRACE(to_text(many->options().parallel));
  EXPECT_SAME_BITS(work(*many), work(*one));
  EXPECT_EQ(many->expert_load(), one->expert_load());
}

TEST(RankEngine, ExpertAndDataParallel) {
  expect_one_ranks_bits({.dp = 2});
  expect_one_ranks_bits({.ep = 4});
}

TEST(RankEngine, TwoMicroBatches) {
  expect_one_ranks_bits({.dp = 2, .dual_batch_overlap = true});
  expect_one_ranks_bits({.dp = 4, .redundant_experts = 4, .dual_batch_overlap = true});
  expect_one_ranks_bits({.dp = 2, .prefill_groups = 1, .dual_batch_overlap = true});
}

TEST(RankEngine, Pipeline) {
  expect_one_ranks_bits({.pp = 2});
  expect_one_ranks_bits({.dp = 2, .pp = 3});
}

/// Stages of devices that are not alike: as many layers as imposed capacities leave each.
TEST(RankEngine, PipelineOfUnequalStages) {
  expect_one_ranks_bits({.pp = 2, .stage_layers = {1, 4}});
  expect_one_ranks_bits({.dp = 2, .stage_layers = {1, 3, 1}});
  const ModelConfig config = preset_config("tiny-flash");
  const StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  const std::int64_t all = device_weight_bytes(config, formats);
  const auto layers =
      balanced_stage_layers(config, formats, std::vector<StageDevice>{{all / 4, 1e12, 0}, {all, 1e12, 0}});
  ASSERT_TRUE(layers);
  EXPECT_LT(layers->front(), layers->back());
  expect_one_ranks_bits({.stage_layers = *layers});
}

TEST(RankEngine, SequenceParallel) {
  expect_one_ranks_bits({.tp = 2, .o_proj_tp = 1, .sequence_parallel = true});
  expect_one_ranks_bits({.tp = 2, .dp = 2, .pp = 2, .o_proj_tp = 1, .sequence_parallel = true});
}

TEST(RankEngine, GatheredRows) {
  BALEEN_CPU_ONLY();
  constexpr ExpertTransport kAllGather = ExpertTransport::kAllGather;
  expect_one_ranks_bits({.dp = 2, .expert_transport = kAllGather});
  expect_one_ranks_bits({.ep = 4, .redundant_experts = 4, .expert_transport = kAllGather});
  expect_one_ranks_bits(
      {.tp = 2, .dp = 2, .pp = 2, .o_proj_tp = 1, .sequence_parallel = true, .expert_transport = kAllGather});
}

TEST(RankEngine, SumsOfGatheredRowsRepeatThemselves) {
  BALEEN_CPU_ONLY();
  const ParallelPlan plan{.dp = 2, .expert_transport = ExpertTransport::kReduceScatter};
  const auto run = [&] { return work(*open_engine(tiny().path(), options(plan))); };
  EXPECT_SAME_BITS(run(), run());
}

TEST(RankEngine, ContextParallel) {
  expect_one_ranks_bits({.cp = 2});
  expect_one_ranks_bits({.cp = 4});
  expect_one_ranks_bits({.cp = 2, .dp = 2, .pp = 2});
  expect_one_ranks_bits({.cp = 2, .redundant_experts = 2});
}

/// Each block's experts are shared out by their own number: 8 of layers, 4 of the draft head.
TEST(RankEngine, BlocksOfADraftHeadWithFewerExperts) {
  BALEEN_CPU_ONLY();
  expect_one_ranks_bits({.dp = 2}, tiny_v41());
  expect_one_ranks_bits({.ep = 4}, tiny_v41());
  expect_one_ranks_bits({.dp = 2, .redundant_experts = 2}, tiny_v41());
  expect_one_ranks_bits({.dp = 2, .expert_placement = ExpertOrder::kRoundRobin}, tiny_v41());
  expect_one_ranks_bits({.dp = 2, .expert_transport = ExpertTransport::kAllGather}, tiny_v41());
}

/// Layers that read what earlier ones make: in one stage, and with rows or heads shared out.
TEST(RankEngine, LayersThatShareEntries) {
  BALEEN_CPU_ONLY();
  expect_one_ranks_bits({.pp = 2}, tiny_v41());
  expect_one_ranks_bits({.dp = 2, .pp = 3}, tiny_v41());
  expect_one_ranks_bits({.cp = 2}, tiny_v41());
  expect_one_ranks_bits({.cp = 2, .dp = 2, .pp = 2}, tiny_v41());
  expect_one_ranks_bits({.tp = 2, .o_proj_tp = 1, .sequence_parallel = true}, tiny_v41());
}

/// A second prompt finds the first one's pages, which every rank of the group keeps.
TEST(RankEngine, ContextParallelPrefixes) {
  const auto run = [](const ParallelPlan& plan) {
    EngineOptions with_cache = options(plan);
    with_cache.prefix_cache = true;
    const std::unique_ptr<ModelEngine> engine = open_engine(tiny().path(), with_cache);
    const std::vector<TokenId> prompt = test::random_tokens(600, 512, 1);
    const SequenceId first = *engine->open({});
    std::vector<float> seen = test::feed(*engine, first, prompt, 100).main;
    engine->close(first, true);
    const SequenceId second = *engine->open(prompt);
    const std::int64_t known = engine->length(second);
    EXPECT_GE(known, 256);
    const std::vector<float> more =
        test::feed(*engine, second, std::span(prompt).subspan(static_cast<std::size_t>(known)), 61).main;
    seen.insert(seen.end(), more.begin(), more.end());
    return seen;
  };
  EXPECT_SAME_BITS(run({.cp = 3, .redundant_experts = 1}), run({}));
}

TEST(RankEngine, TensorParallelRepeatsItself) {
  const auto run = [](const test::RandomCheckpoint& of) {
    return work(*open_engine(of.path(), options({.tp = 2})));
  };
  EXPECT_SAME_BITS(run(tiny()), run(tiny()));
  if (test::device().is_cpu()) {
    EXPECT_SAME_BITS(run(tiny_v41()), run(tiny_v41()));
  }
}

TEST(RankEngine, GroupsKeepPrefixesAndShareTheLoad) {
  EngineOptions with_cache = options({.dp = 2});
  with_cache.prefix_cache = true;
  with_cache.max_draft_tokens = 0;
  const auto opened = open_engine(tiny().path(), with_cache);
  auto& engine = dynamic_cast<RankEngine&>(*opened);
  const std::vector<TokenId> prompt = test::random_tokens(600, 512, 1);
  const SequenceId first = *engine.open({});
  const SequenceId second = *engine.open({});
  EXPECT_NE(engine.group_of(first), engine.group_of(second));
  static_cast<void>(test::feed(engine, second, prompt, 100));
  const std::int64_t owner = engine.group_of(second);
  engine.close(second, true);
  EXPECT_EQ(engine.cache_use().pages.cached, 2);

  // Where the prompt is known, though both have one sequence.
  const SequenceId balance = *engine.open({});
  EXPECT_EQ(engine.group_of(balance), owner);
  const SequenceId third = *engine.open(prompt);
  EXPECT_EQ(engine.group_of(third), owner);
  EXPECT_EQ(engine.length(third), 512);
  // Not without limit: that group has two sequences now, the other one.
  const SequenceId fourth = *engine.open(prompt);
  EXPECT_EQ(engine.group_of(fourth), owner) << "one more is within the bound";
  EXPECT_FALSE(engine.open(prompt)) << "all four are in use";
}

TEST(RankEngine, AnEngineWithGroupsRefusesWhatOneRankRefuses) {
  const auto engine = open_engine(tiny().path(), options({.dp = 2}));
  const SequenceId sequence = *engine->open({});
  const std::vector<TokenId> wrong{3, 512};
  const auto sentence = [&](std::span<const StepInput> inputs) {
    const Result<StepOutput> output = engine->step(inputs);
    return output ? std::string() : output.error();
  };
  const StepInput input{sequence, wrong};
  EXPECT_NE(sentence({&input, 1}).find("token id 512 at position 1"), std::string::npos);
  EXPECT_NE(sentence({}).find("a step of 0 tokens"), std::string::npos);
  EXPECT_EQ(engine->length(sequence), 0);
  // And goes on.
  EXPECT_EQ(test::step(*engine, sequence, std::vector<TokenId>{3, 4}).logits.extent(0), 2);
}

TEST(RankEngine, PlansThatCannotBe) {
  BALEEN_CPU_ONLY();
  const auto refusal = [](const ParallelPlan& plan) -> std::string {
    try {
      static_cast<void>(open_engine(tiny().path(), options(plan)));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal({.tp = 3}).find("‹tensor parallelism› 3"), std::string::npos);
  EXPECT_NE(refusal({.pp = 99}).find("‹pipeline parallelism› 99"), std::string::npos);
  EXPECT_NE(refusal({.pp = 2, .stage_layers = {3, 3}}).find("‹stage layers› 3,3"), std::string::npos);
  EXPECT_NE(refusal({.pp = 3, .stage_layers = {3, 2}}).find("2 stages"), std::string::npos);
  EXPECT_NE(refusal({.stage_layers = {5, 0}}).find("‹stage layers› 5,0"), std::string::npos);
  EXPECT_NE(refusal({.dp = 2, .o_proj_tp = 2}).find("‹split of output projections› 2"), std::string::npos);
  EXPECT_NE(refusal({.pp = 2, .redundant_experts = 2}).find("‹copies of experts›"), std::string::npos);
  EXPECT_NE(refusal({.tp = 2, .dual_batch_overlap = true}).find("‹micro-batch overlap›: "),
            std::string::npos);
  EXPECT_NE(refusal({.dual_batch_overlap = true}).find("‹micro-batch overlap›: "), std::string::npos);
  const auto refuses = [&](const ParallelPlan& plan, const char* part) {
    EXPECT_NE(refusal(plan).find(part), std::string::npos) << refusal(plan);
  };
  refuses({.dp = 2, .expert_transport = ExpertTransport::kPeerMemory},
          "‹expert transport› peer-memory: is for GPUs");
  refuses({.dp = 2, .expert_transport = ExpertTransport::kAllReduce},
          "‹expert transport› all-reduce: ranks have");
  refuses({.dp = 2, .expert_transport = ExpertTransport::kNccl}, "‹expert transport› nccl: ");
  refuses({.expert_transport = ExpertTransport::kAllToAll},
          "‹expert transport› all-to-all: every rank has all");
}

}  // namespace
}  // namespace baleen
