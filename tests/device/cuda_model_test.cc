// Whole models on a GPU against the same models on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "device/device_choice.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/support/bounded_prompts.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_architecture.h"

#define BALEEN_NEEDS_USABLE_GPU() \
  if (const std::string why = why_not_gpu(0, test::gpu_use()); !why.empty()) GTEST_SKIP() << why

namespace baleen {
namespace {

using test::variant_name;

const DeviceChoice kGpu = test::test_gpu();

EngineOptions options(DeviceChoice device, std::int64_t max_sequences = 1) {
  return {.device = device,
          .num_threads = 2,
          .max_batch_tokens = 512,
          .max_logit_rows = 512,
          .max_sequences = max_sequences,
          .cache_tokens = 1024 * max_sequences,
          .drafts = true};
}

class CudaModel : public testing::TestWithParam<const char*> {};

/// ||got - want|| / ||want|| of every position, in order.
std::vector<double> errors_by_position(std::span<const float> got, std::span<const float> want,
                                       std::size_t width) {
  std::vector<double> errors;
  for (std::size_t begin = 0; begin < want.size(); begin += width) {
    double difference = 0, norm = 0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      const double d = static_cast<double>(got[i]) - want[i];
      difference += d * d;
      norm += static_cast<double>(want[i]) * want[i];
    }
    errors.push_back(std::sqrt(difference / norm));
  }
  return errors;
}

double quantile(std::span<const double> values, double share) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

/// Random weights, which show every layer kind and every difference: a rounding that falls the other way
/// moves the logits of such a model by several percent, and an expert or entry chosen at a near tie by much
/// more. How much is right, the CPU says: its own variants differ as well.
TEST_P(CudaModel, DiffersFromTheReferenceLittleMoreThanTheCpuDoes) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(GetParam());
  const std::vector<TokenId> tokens = test::random_tokens(160, 512, 7);  // plain loops take their time
  const auto logits = [&](EngineOptions with) {
    Engine engine(checkpoint.path(), with);
    return test::run_sequence(engine, tokens, tokens.size()).main;
  };
  EngineOptions reference = options({});
  reference.forced_variants = {{"", "reference"}};
  const std::vector<float> want = logits(reference);
  const std::size_t width = want.size() / tokens.size();
  const auto cpu = errors_by_position(logits(options({})), want, width);
  const auto gpu = errors_by_position(logits(options(kGpu)), want, width);
  for (const auto& [begin, end] : {std::pair{0, 60}, {60, 130}, {130, 160}}) {
    const auto part = [&](const std::vector<double>& errors) {
      return std::span(errors).subspan(static_cast<std::size_t>(begin),
                                       static_cast<std::size_t>(end - begin));
    };
    fmt::print("positions {} to {}: median {:.3f} (CPU {:.3f}), nine of ten below {:.3f} ({:.3f})\n", begin,
               end, quantile(part(gpu), 0.5), quantile(part(cpu), 0.5), quantile(part(gpu), 0.9),
               quantile(part(cpu), 0.9));
  }
  EXPECT_LT(quantile(gpu, 0.5), 2 * quantile(cpu, 0.5));
}
/// Sequences that kernels do in one pass, split by force: every operation has a kernel of its own.
TEST_P(CudaModel, EveryOperationRunsAlone) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(GetParam());
  const std::vector<TokenId> tokens = test::random_tokens(160, 512, 7);
  Engine fused(checkpoint.path(), options(kGpu));
  EngineOptions alone = options(kGpu);
  alone.forced_variants = {
      {"hc_pre", variant_name()}, {"rms_norm", variant_name()}, {"sparse_attention", variant_name("any")}};
  Engine split(checkpoint.path(), alone);
  const std::vector<float> want = test::run_sequence(fused, tokens, tokens.size()).main;
  const std::vector<float> got = test::run_sequence(split, tokens, tokens.size()).main;
  EXPECT_GT(fused.device().num_runs("hc_post_pre_norm", variant_name("one_pass")), 0);
  EXPECT_EQ(fused.device().num_runs("hc_pre", variant_name()), 0);
  EXPECT_EQ(split.device().num_runs("hc_post_pre_norm", variant_name("one_pass")), 0);
  for (const std::string_view operation : {"hc_pre", "hc_post", "rms_norm", "rope", "kv_store"})
    EXPECT_GT(split.device().num_runs(operation, variant_name()), 0) << operation;
  EXPECT_GT(split.device().num_runs("sparse_attention", variant_name("any")), 0);
  // Roundings fall elsewhere, as between the CPU's variants; the median is what a random model keeps.
  EXPECT_LT(quantile(errors_by_position(got, want, want.size() / tokens.size()), 0.5), 0.2);
}

/// The same bits whichever kernel multiplies: forced, it runs, and nothing changes.
TEST_P(CudaModel, LinearsHaveTheSameBitsInEveryVariant) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(GetParam());
  const std::vector<TokenId> tokens = test::random_tokens(160, 512, 7);
  const auto logits = [&](std::string_view variant) {
    EngineOptions forced = options(kGpu);
    forced.forced_variants = {{"linear", std::string(variant)}};
    Engine engine(checkpoint.path(), forced);
    const std::vector<float> values = test::run_sequence(engine, tokens, tokens.size()).main;
    EXPECT_GT(engine.device().num_runs("linear", variant), 0) << variant;
    return values;
  };
  EXPECT_SAME_BITS(logits(variant_name("few_tokens")), logits(variant_name("many_tokens")));
}
INSTANTIATE_TEST_SUITE_P(Presets, CudaModel, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& param) {
                           std::string name(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

std::vector<TokenId> greedy(Engine& engine, std::span<const TokenId> prompt, std::size_t count,
                            std::vector<std::vector<float>>& logits) {
  const SequenceId sequence = *engine.open({});
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  std::span<const TokenId> next = tokens;
  std::vector<TokenId> reply;
  while (reply.size() < count) {
    const StepInput input{sequence, next, WantedLogits::kLast};
    const Result<StepOutput> output = engine.step({&input, 1});
    EXPECT_TRUE(output.ok()) << output.error();
    const auto row = output.value().logits.row(0);
    logits.emplace_back(row.begin(), row.end());
    reply.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    next = std::span(reply).last(1);
  }
  engine.close(sequence, false);
  return reply;
}

TEST(CudaStories, GreedyTextIsTheCpusOrDiffersAtATie) {
  BALEEN_NEEDS_USABLE_GPU();
  const auto stories = nlohmann::json::parse(read_text_file("tests/forward/goldens/stories_nll.json"));
  Engine cpu("models/stories", options({})), gpu("models/stories", options(kGpu));
  constexpr std::size_t kPromptTokens = 16, kReplyTokens = 64;
  constexpr float kTie = 0.1F;  // logits: what a few BF16 roundings move
  int same = 0;
  for (const auto& story : stories) {
    auto ids = story["ids"].get<std::vector<TokenId>>();
    ids.resize(std::min(ids.size(), kPromptTokens));
    std::vector<std::vector<float>> cpu_logits, gpu_logits;
    const std::vector<TokenId> want = greedy(cpu, ids, kReplyTokens, cpu_logits);
    const std::vector<TokenId> got = greedy(gpu, ids, kReplyTokens, gpu_logits);
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(want, got).in1 - want.begin());
    if (at == want.size()) {
      ++same;
      continue;
    }
    const auto logit = [&](TokenId token) { return cpu_logits[at][static_cast<std::size_t>(token)]; };
    fmt::print("differs at token {}: {} ({}) on the CPU, {} ({}) on the GPU\n", at, want[at], logit(want[at]),
               got[at], logit(got[at]));
    EXPECT_LT(logit(want[at]) - logit(got[at]), kTie);
  }
  fmt::print("{} of {} replies are the same\n", same, stories.size());
}

/// Steps that are replayed from graphs (padded to their size) and steps that are queued operation by
/// operation.
TEST(CudaGraphs, ReplayedStepsAreTheSameToTheBit) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint("tiny-real-heads");
  const std::vector<TokenId> tokens = test::random_tokens(300, 512, 5);
  Engine replayed(checkpoint.path(), options(kGpu, 5)), queued(checkpoint.path(), options(kGpu, 5));
  queued.device().set_profiling(true);
  for (const std::size_t chunk : {1, 3, 5}) {
    const test::SequenceLogits got = test::run_sequence(replayed, tokens, chunk);
    const test::SequenceLogits want = test::run_sequence(queued, tokens, chunk);
    EXPECT_SAME_BITS(got.main, want.main) << chunk;
    EXPECT_SAME_BITS(got.mtp, want.mtp) << chunk;
  }
  EXPECT_GT(queued.device().profile().total().calls, 0);
}

/// The released geometry, cut to few layers and experts: sizes at which kernels choose other paths than for
/// tiny models.
TEST(CudaFlash, QueuedAndReplayedStepsAndChunksAgreeToTheBit) {
  BALEEN_NEEDS_USABLE_GPU();
  const ModelConfig config = with_experts(with_layers(preset_config("flash"), 4), 12);
  ThreadPool pool(8);
  EngineOptions with = options(kGpu, 4);
  with.max_logit_rows = 300;
  Engine replayed(made_up_weights(config, 1, pool), with);
  const std::vector<TokenId> tokens = test::random_tokens(300, config.vocab_size, 5);
  const test::SequenceLogits whole = test::run_sequence(replayed, tokens, tokens.size());
  for (const std::size_t chunk : {1, 4, 70}) {
    const test::SequenceLogits got = test::run_sequence(replayed, std::span(tokens).first(140), chunk);
    EXPECT_SAME_BITS(got.main, std::span(whole.main).first(got.main.size())) << chunk;
    EXPECT_SAME_BITS(got.mtp, std::span(whole.mtp).first(got.mtp.size())) << chunk;
  }
  replayed.device().set_profiling(true);
  const test::SequenceLogits queued = test::run_sequence(replayed, std::span(tokens).first(20), 1);
  EXPECT_SAME_BITS(queued.main, std::span(whole.main).first(queued.main.size()));
}

/// Hundreds of replayed steps: kernels overlap their neighbours, and what one of them does too early shows
/// now and then.
TEST(CudaFlash, ManyStepsBehindALongHistoryAreTheSameTwice) {
  BALEEN_NEEDS_USABLE_GPU();
  constexpr std::int64_t kHistory = 4096, kSteps = 300;
  const ModelConfig config = with_experts(with_layers(preset_config("flash"), 4), 12);
  ThreadPool pool(8);
  Engine engine(made_up_weights(config, 1, pool), {.device = kGpu,
                                                   .num_threads = 2,
                                                   .max_batch_tokens = 64,
                                                   .max_sequences = 2,
                                                   .cache_tokens = 2 * (kHistory + 512)});
  const std::vector<TokenId> tokens = test::random_tokens(kSteps, config.vocab_size, 5);
  const SequenceId first = *engine.open({}), second = *engine.open({});
  engine.fabricate_history(first, kHistory);
  engine.fabricate_history(second, kHistory);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::span<const TokenId> token = std::span(tokens).subspan(i, 1);
    const StepOutput once = test::step(engine, first, token, WantedLogits::kLast);
    const std::vector<float> want(once.logits.data(), once.logits.data() + once.logits.size());
    const StepOutput again = test::step(engine, second, token, WantedLogits::kLast);
    ASSERT_SAME_BITS(std::span(again.logits.data(), want.size()), want) << "step " << i;
  }
}

/// DeepSeek-V4.1 of each head width: tiny ones, and those that are published, whose rows have 528 and 288
/// bytes.
class CudaV41 : public testing::TestWithParam<std::int64_t> {
 protected:
  static ModelConfig config() {
    ModelConfig config = preset_config("tiny-v41");
    if (GetParam() == config.head_dim) return config;
    config.head_dim = GetParam();
    config.num_attention_heads = 8;
    config.o_groups = 4;
    config.q_lora_rank = 256;
    config.index_n_heads = 32;
    return config;
  }
  [[nodiscard]] std::vector<TokenId> tokens(std::int64_t count) const {
    return test::random_tokens(count, config().vocab_size, 7);
  }

  const test::RandomCheckpoint checkpoint_{config(), 3, "models/stories"};
};

TEST_P(CudaV41, DiffersFromTheReferenceLittleMoreThanTheCpuDoes) {
  BALEEN_NEEDS_USABLE_GPU();
  const std::vector<TokenId> prompt = tokens(160);
  const auto logits = [&](const EngineOptions& with) {
    Engine engine(checkpoint_.path(), with);
    return test::run_sequence(engine, prompt, prompt.size()).main;
  };
  EngineOptions reference = options({});
  reference.forced_variants = {{"", "reference"}};
  const std::vector<float> want = logits(reference);
  const std::size_t width = want.size() / prompt.size();
  const auto cpu = errors_by_position(logits(options({})), want, width);
  const auto gpu = errors_by_position(logits(options(kGpu)), want, width);
  fmt::print("median {:.3f} (CPU {:.3f}), nine of ten below {:.3f} ({:.3f})\n", quantile(gpu, 0.5),
             quantile(cpu, 0.5), quantile(gpu, 0.9), quantile(cpu, 0.9));
  EXPECT_LT(quantile(gpu, 0.5), 2 * quantile(cpu, 0.5));
}

/// A pending token at odd ends, n-grams across all of them; steps of few rows are replayed.
TEST_P(CudaV41, PiecesAreTheWholeToTheBitFromEveryPlaceOfItsTables) {
  BALEEN_NEEDS_USABLE_GPU();
  const std::vector<TokenId> prompt = tokens(300);
  std::vector<float> whole;
  for (const EngramWish place : {EngramWish::kGpu, EngramWish::kHost, EngramWish::kDisk}) {
    SCOPED_TRACE(static_cast<int>(place));
    EngineOptions with = options(kGpu, 4);
    with.engram = place;
    Engine engine(checkpoint_.path(), with);
    const std::vector<float> once = test::run_sequence(engine, prompt, prompt.size()).main;
    if (whole.empty()) whole = once;
    EXPECT_SAME_BITS(once, whole);
    for (const std::size_t chunk : {1, 3, 70}) {
      const std::vector<float> got = test::run_sequence(engine, std::span(prompt).first(141), chunk).main;
      EXPECT_SAME_BITS(got, std::span(whole).first(got.size())) << chunk;
    }
  }
}

/// Steps of two passes, over more and fewer rows than a graph has: pieces do not show, and where so many
/// tokens go through the decoder half that their windows reach back to none before, the logits are those of
/// steps of one pass.
TEST_P(CudaV41, BoundedReplayIsTheSameInPiecesAndExactWithEnoughTokens) {
  BALEEN_NEEDS_USABLE_GPU();
  const std::vector<TokenId> all = tokens(719);
  const auto behind = [&](std::int64_t replay, std::size_t prompt,
                          std::initializer_list<std::size_t> chunks) {
    EngineOptions with = options(kGpu, 2);
    with.bounded_replay_tokens = replay;
    Engine engine(checkpoint_.path(), with);
    std::vector<std::vector<float>> logits;
    for (const std::size_t chunk : chunks)
      logits.push_back(test::run_prompt(engine, std::span(all).first(prompt + 6), prompt, chunk));
    return logits;
  };
  const auto in_pieces = behind(128, 397, {512, 130, 33, 7});
  for (std::size_t i = 1; i < in_pieces.size(); ++i) EXPECT_SAME_BITS(in_pieces[i], in_pieces[0]) << i;
  EXPECT_NE(in_pieces[0], behind(0, 397, {512})[0]);
  EXPECT_SAME_BITS(behind(5 * 128, 713, {500})[0], behind(0, 713, {500})[0]);
}

TEST_P(CudaV41, DraftsAreNearTheCpus) {
  BALEEN_NEEDS_USABLE_GPU();
  const std::vector<TokenId> prompt = tokens(3);
  const auto drafts = [&](DeviceChoice device) {
    EngineOptions with = options(device);
    with.max_draft_tokens = 5;
    Engine engine(checkpoint_.path(), with);
    std::vector<float> logits;
    for (TokenId first = 0; first < 40; ++first) {
      const SequenceId sequence = *engine.open({});
      const std::vector<TokenId> fed{first, prompt[0], prompt[1], prompt[2]};
      static_cast<void>(test::step(engine, sequence, fed, WantedLogits::kLast));
      EXPECT_TRUE(engine.reserve(sequence, engine.limits().least_draft_room));
      for (std::int64_t depth = 0; depth < 5; ++depth) {
        const DraftInput input{sequence, static_cast<TokenId>(first + depth)};
        const Result<DraftOutput> output = engine.draft({&input, 1}, depth);
        EXPECT_TRUE(output.ok()) << output.error();
        const auto row = output.value().logits.row(0);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      engine.close(sequence, false);
    }
    return logits;
  };
  const std::vector<float> want = drafts({}), got = drafts(kGpu);
  const double median = quantile(errors_by_position(got, want, want.size() / 200), 0.5);
  fmt::print("median of 200 drafts: {:.3f}\n", median);
  EXPECT_LT(median, 0.2);
}

INSTANTIATE_TEST_SUITE_P(Heads, CudaV41, testing::Values(128, 512), testing::PrintToStringParamName());

TEST(CudaPlan, WhatWasPlannedIsWhatIsTaken) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint("tiny-real-heads");
  const Engine engine(checkpoint.path(), options(kGpu));
  EXPECT_GT(engine.plan().weight_bytes, 0);  // DeviceWeights stops the program when the two differ
}

}  // namespace
}  // namespace baleen
