// Routed experts in pinned memory of the host and on disk: where they lie, whether they move, whether what is
// fetched ahead is right, changes no bit of the logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "device/device_choice.h"
#include "engine/expert_memory.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "moe/residence/expert_reader.h"
#include "moe/residence/expert_store.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_architecture.h"

#define BALEEN_NEEDS_USABLE_GPU() \
  if (const std::string why = why_not_gpu(0, test::gpu_use()); !why.empty()) GTEST_SKIP() << why

namespace baleen {
namespace {

constexpr std::int64_t kMaxSequences = 200;
constexpr std::int64_t kBatches[] = {2, 16, 64, kMaxSequences};

EngineOptions options() {
  return {.device = test::test_gpu(),
          .num_threads = 2,
          .max_batch_tokens = 512,
          .max_logit_rows = 512,
          .max_sequences = kMaxSequences,
          .cache_tokens = 512 * kMaxSequences,
          .drafts = true};
}

/// `some` with room on the GPU for `share` of the layers' routed experts, and on the host for `host_share` of
/// the others; the rest is on disk.
EngineOptions with_share(const ModelWeights& weights, double share, EngineOptions some,
                         double host_share = 1) {
  const ModelConfig& config = weights.config();
  const MovableExperts experts =
      movable_experts(config, detect_formats(config, weights.checkpoint()), resolved(some, config));
  const std::int64_t block_bytes = experts.block_bytes;
  ExpertCounts counts = experts.counts;
  counts.num_on_host = static_cast<std::int64_t>((1 - share) * static_cast<double>(counts.num_in_all()));
  counts.num_slots = suitable_slots(counts);
  some.gpu_weight_bytes = experts.bytes_beside + ExpertStore::device_bytes(counts, block_bytes);
  if (host_share == 1) return some;
  const auto on_host = static_cast<std::int64_t>(host_share * static_cast<double>(counts.num_on_host));
  some.host_expert_bytes = ExpertReader::host_bytes(block_bytes) + (on_host + 1) * block_bytes;
  return some;
}

/// Logits of so many sequences of different tokens, one token each a step: [steps, sequences, V]. The first
/// ones have the same tokens whatever the number. `before` each step is called with its number.
std::vector<float> batched(Engine& engine, std::int64_t num_sequences, std::int64_t num_steps,
                           const std::function<void(std::int64_t)>& before = {}) {
  std::vector<SequenceId> sequences;
  for (std::int64_t i = 0; i < num_sequences; ++i) sequences.push_back(*engine.open({}));
  std::vector<float> logits;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    if (before) before(step);
    const std::vector<TokenId> tokens =
        test::random_tokens(num_sequences, 512, static_cast<std::uint32_t>(step));
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      inputs.push_back({sequences[i], std::span(tokens).subspan(i, 1), WantedLogits::kLast});
    const Result<StepOutput> output = engine.step(inputs);
    EXPECT_TRUE(output.ok()) << output.error();
    const auto& values = output.value().logits;
    logits.insert(logits.end(), values.data(), values.data() + values.size());
  }
  for (const SequenceId sequence : sequences) engine.close(sequence, false);
  return logits;
}

struct AllLogits {
  test::SequenceLogits one_by_one, chunks, prompt;
  std::vector<float> batch;
};

constexpr std::int64_t kSteps = 3;
constexpr std::size_t kChunk = 90;  // rows that no graph has

AllLogits all_logits(Engine& engine, std::int64_t prompt_tokens) {
  const std::vector<TokenId> tokens = test::random_tokens(prompt_tokens, 512, 7);
  return {.one_by_one = test::run_sequence(engine, std::span(tokens).first(24), 1),
          .chunks = test::run_sequence(engine, tokens, kChunk),
          .prompt = test::run_sequence(engine, tokens, tokens.size()),
          .batch = batched(engine, kMaxSequences, kSteps)};
}

void expect_same(const AllLogits& got, const AllLogits& want) {
  EXPECT_SAME_BITS(got.one_by_one.main, want.one_by_one.main);
  EXPECT_SAME_BITS(got.one_by_one.mtp, want.one_by_one.mtp);
  EXPECT_SAME_BITS(got.chunks.main, want.chunks.main);
  EXPECT_SAME_BITS(got.chunks.mtp, want.chunks.mtp);
  EXPECT_SAME_BITS(got.prompt.main, want.prompt.main);
  EXPECT_SAME_BITS(got.prompt.mtp, want.prompt.mtp);
  EXPECT_SAME_BITS(got.batch, want.batch);
}

/// Every block's experts outside the GPU's memory against as many in it, the first against the first; and
/// those on disk then against those on the host.
void swap_as_many_as_can_be(ExpertStore& store) {
  const ExpertPlacement& placement = store.placement();
  for (std::int64_t block = 0; block < placement.counts().num_blocks; ++block) {
    const auto at = [&](auto condition) {
      std::vector<std::int64_t> experts;
      for (std::int64_t expert = 0; expert < placement.counts().num_experts; ++expert) {
        if (condition(placement.level(block, expert))) experts.push_back(expert);
      }
      return experts;
    };
    const auto swap_all = [&](const std::vector<std::int64_t>& farther,
                              const std::vector<std::int64_t>& nearer) {
      for (std::size_t i = 0; i < std::min(farther.size(), nearer.size()); ++i)
        store.swap({block, farther[i], nearer[i]});
    };
    swap_all(at([](ExpertLevel level) { return level != ExpertLevel::kDevice; }),
             at([](ExpertLevel level) { return level == ExpertLevel::kDevice; }));
    swap_all(at([](ExpertLevel level) { return level == ExpertLevel::kDisk; }),
             at([](ExpertLevel level) { return level == ExpertLevel::kHost; }));
  }
}

/// Batches of all sizes, replayed, queued, and while experts change places between steps, against what the
/// largest one gave where all experts lie on the GPU.
void expect_batches(Engine& parted, std::span<const float> largest, std::span<const std::int64_t> batches) {
  const auto row = static_cast<std::size_t>(parted.config().vocab_size);
  for (const std::int64_t num_sequences : batches) {
    const auto step = static_cast<std::size_t>(num_sequences) * row;
    const auto expect_rows = [&](std::span<const float> got) {
      ASSERT_EQ(got.size(), kSteps * step);
      for (std::size_t i = 0; i < kSteps; ++i)
        EXPECT_SAME_BITS(got.subspan(i * step, step), largest.subspan(i * kMaxSequences * row, step));
    };
    SCOPED_TRACE(fmt::format("{} sequences", num_sequences));
    expect_rows(batched(parted, num_sequences, kSteps));
    expect_rows(batched(parted, num_sequences, kSteps,
                        [&](std::int64_t) { swap_as_many_as_can_be(*parted.experts()); }));
    parted.device().set_profiling(true);  // then steps are queued, operation by operation
    expect_rows(batched(parted, num_sequences, kSteps,
                        [&](std::int64_t) { swap_as_many_as_can_be(*parted.experts()); }));
    parted.device().set_profiling(false);
  }
}

/// All ways to an expert were gone: guesses were right and wrong, and slots had what was chosen.
void expect_counts(Engine& parted) {
  const ExpertFetchCounts counts = parted.experts()->counts();
  const ExpertCounts& placed = parted.plan().experts;
  EXPECT_EQ(counts.resident > 0, placed.num_on_device() + placed.most_cached(1) > 0);
  EXPECT_GT(counts.in_slots, 0);
  EXPECT_EQ(counts.from_host > 0, placed.num_on_host > 0);
  EXPECT_EQ(counts.from_disk > 0, placed.num_on_disk > 0);
  EXPECT_GT(counts.bytes_behind, 0);
  if (placed.num_on_host == 0) return;  // a guess waits for no disk
  EXPECT_GT(counts.guessed_chosen, 0);
  EXPECT_GT(counts.guessed, counts.guessed_chosen);
  EXPECT_GT(counts.bytes_ahead, 0);
}

/// With so many experts that buffers and slots for them take less than they do.
ModelConfig config_of(std::string_view preset) {
  ModelConfig config = preset_config(preset);
  config.n_routed_experts = 48;
  return config;
}

class CudaOffload : public testing::TestWithParam<const char*> {};

TEST_P(CudaOffload, LogitsDoNotDependOnWhereExpertsLie) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(config_of(GetParam()));
  Engine whole(checkpoint.path(), options());
  ASSERT_EQ(whole.experts(), nullptr);
  const AllLogits want = all_logits(whole, 300);
  for (const auto& [share, host_share] :
       {std::pair{0.0, 1.0}, {0.1, 1.0}, {0.3, 1.0}, {0.3, 0.4}, {0.0, 0.0}}) {
    SCOPED_TRACE(fmt::format("{} on the GPU, {} of the others on the host", share, host_share));
    Engine parted(checkpoint.path(), with_share(whole.weights(), share, options(), host_share));
    ASSERT_NE(parted.experts(), nullptr);
    EXPECT_GT(parted.plan().experts.num_away(), 0);
    EXPECT_EQ(parted.plan().experts.num_on_disk > 0, host_share < 1);
    expect_same(all_logits(parted, 300), want);
    swap_as_many_as_can_be(*parted.experts());
    expect_same(all_logits(parted, 300), want);
    expect_batches(parted, want.batch, kBatches);
    expect_counts(parted);
  }
}
INSTANTIATE_TEST_SUITE_P(Presets, CudaOffload, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& param) {
                           std::string name(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// DeepSeek-V4.1 with its draft head, whose blocks have other numbers of experts than its layers.
ModelConfig v41_config() {
  ModelConfig config = config_of("tiny-v41");
  config.dspark.n_routed_experts = 16;
  return config;
}

EngineOptions drafting(EngineOptions some) {
  some.max_draft_tokens = v41_config().dspark.block_size;
  return some;
}

/// Logits of a block of drafts behind a few tokens of so many sequences, one after the other and together,
/// then of the step that checks them: rows of drafts that graphs have, and more than kernels copy for.
std::vector<float> drafted(Engine& engine, std::int64_t num_sequences) {
  const std::int64_t num_drafts = engine.limits().max_draft_tokens;
  std::vector<SequenceId> sequences;
  std::vector<float> seen;
  const auto note = [&](const ConstActivations<2>& logits) {
    seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
  };
  const std::vector<TokenId> tokens = test::random_tokens(4 * num_sequences, 512, 3);
  std::vector<std::vector<TokenId>> checked;
  std::vector<StepInput> inputs;
  for (std::size_t i = 0; i < static_cast<std::size_t>(num_sequences); ++i) {
    sequences.push_back(*engine.open({}));
    inputs.push_back({sequences.back(), std::span(tokens).subspan(4 * i, 4), WantedLogits::kLast});
    checked.push_back(test::random_tokens(1 + num_drafts, 512, static_cast<std::uint32_t>(i)));
  }
  const Result<StepOutput> first = engine.step(inputs);
  EXPECT_TRUE(first.ok()) << first.error();
  note(first.value().logits);
  for (const SequenceId sequence : sequences)
    EXPECT_TRUE(engine.reserve(sequence, engine.limits().least_draft_room));
  for (std::int64_t depth = 0; depth < num_drafts; ++depth) {
    std::vector<DraftInput> drafts;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      drafts.push_back({sequences[i], checked[i][static_cast<std::size_t>(depth)]});
    const Result<DraftOutput> output = engine.draft(drafts, depth);
    EXPECT_TRUE(output.ok()) << output.error();
    note(output.value().logits);
  }
  for (std::size_t i = 0; i < sequences.size(); ++i)
    inputs[i] = {sequences[i], checked[i], WantedLogits::kAll};
  const Result<StepOutput> check = engine.step(inputs);
  EXPECT_TRUE(check.ok()) << check.error();
  note(check.value().logits);
  for (const SequenceId sequence : sequences) engine.close(sequence, false);
  return seen;
}

constexpr std::int64_t kDrafting[] = {1, 7, 60};

TEST(CudaOffloadV41, DraftsDoNotDependOnWhereExpertsLie) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(v41_config(), 3, "models/stories");
  Engine whole(checkpoint.path(), drafting(options()));
  ASSERT_EQ(whole.experts(), nullptr);
  const AllLogits want = all_logits(whole, 300);
  std::vector<std::vector<float>> drafts;
  for (const std::int64_t count : kDrafting) drafts.push_back(drafted(whole, count));
  for (const auto& [share, host_share] :
       {std::pair{0.0, 1.0}, {0.1, 1.0}, {0.3, 1.0}, {0.3, 0.4}, {0.0, 0.0}}) {
    SCOPED_TRACE(fmt::format("{} on the GPU, {} of the others on the host", share, host_share));
    Engine parted(checkpoint.path(), with_share(whole.weights(), share, drafting(options()), host_share));
    ASSERT_NE(parted.experts(), nullptr);
    EXPECT_EQ(parted.plan().experts.num_blocks, whole.config().num_hidden_layers);
    EXPECT_EQ(parted.plan().experts.num_on_disk > 0, host_share < 1);
    for (const bool swaps : {false, true}) {
      if (swaps) swap_as_many_as_can_be(*parted.experts());
      for (std::size_t i = 0; i < drafts.size(); ++i)
        EXPECT_SAME_BITS(drafted(parted, kDrafting[i]), drafts[i]);
    }
    expect_same(all_logits(parted, 300), want);
    expect_batches(parted, want.batch, kBatches);
    expect_counts(parted);
  }
}

/// The released shapes of an expert, each with bytes of its own.
TEST(CudaOffloadFlash, LogitsDoNotDependOnWhereExpertsLie) {
  BALEEN_NEEDS_USABLE_GPU();
  const ModelConfig config = with_experts(with_layers(preset_config("flash"), 4), 24);
  ThreadPool pool(default_num_threads());
  const std::shared_ptr<const ModelWeights> weights =
      made_up_weights(config, 1, pool, MadeUpBytes::kOfEachTensor);
  EngineOptions plain = options();
  plain.drafts = false;
  Engine whole(weights, plain);
  const AllLogits want = all_logits(whole, 300);
  Engine parted(weights, with_share(whole.weights(), 0.3, plain));
  ASSERT_NE(parted.experts(), nullptr);
  expect_same(all_logits(parted, 300), want);
  swap_as_many_as_can_be(*parted.experts());
  expect_same(all_logits(parted, 300), want);
  const std::int64_t batches[] = {2, 16};
  expect_batches(parted, want.batch, batches);
  expect_counts(parted);
  Engine from_disk(weights, with_share(whole.weights(), 0.3, plain, 0.5));
  EXPECT_GT(from_disk.plan().experts.num_on_disk, 0);
  expect_same(all_logits(from_disk, 300), want);
}

EngineOptions computing(EngineOptions some) {
  some.host_experts = HostExpertsMode::kCompute;
  return some;
}

/// What kernels split experts away by: all are fetched, all are computed, about half of each, and whatever is
/// measured.
struct ForcedSplit {
  const char* name;
  std::optional<HostExpertTimes> times;
};
constexpr std::uint32_t kNever = 1'000'000'000;
constexpr ForcedSplit kSplits[] = {
    {"fetched",
     HostExpertTimes{.fetch_piece = 1, .compute_expert = kNever, .compute_row = 0, .hand_over = 0}},
    {"computed",
     HostExpertTimes{.fetch_piece = kNever, .compute_expert = 1, .compute_row = 1, .hand_over = 0}},
    {"both",
     HostExpertTimes{.fetch_piece = 1'000, .compute_expert = 1'000, .compute_row = 0, .hand_over = 0}},
    {"measured", std::nullopt}};

/// Batches that the host may compute experts for, and one of which it computes none.
constexpr std::int64_t kComputedBatches[] = {1, 2, 3, 5, 8, 16, 64, kMaxSequences};

class CudaHostExperts : public testing::TestWithParam<const char*> {};

TEST_P(CudaHostExperts, LogitsDoNotDependOnWhoComputes) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(config_of(GetParam()));
  Engine whole(checkpoint.path(), computing(options()));
  ASSERT_EQ(whole.experts(), nullptr);
  const AllLogits want = all_logits(whole, 300);
  for (const auto& [share, host_share] :
       {std::pair{0.0, 1.0}, {0.1, 1.0}, {0.6, 1.0}, {0.3, 0.4}, {0.0, 0.0}}) {
    SCOPED_TRACE(fmt::format("{} on the GPU, {} of the others on the host", share, host_share));
    Engine parted(checkpoint.path(), with_share(whole.weights(), share, computing(options()), host_share));
    ASSERT_NE(parted.experts(), nullptr);
    EXPECT_EQ(parted.plan().experts.num_on_disk > 0, host_share < 1);
    for (const ForcedSplit& split : kSplits) {
      SCOPED_TRACE(split.name);
      if (split.times) parted.experts()->hold_times(*split.times);
      const ExpertFetchCounts before = parted.experts()->counts();
      expect_same(all_logits(parted, 300), want);
      swap_as_many_as_can_be(*parted.experts());
      expect_batches(parted, want.batch, kComputedBatches);
      ExpertFetchCounts counts = parted.experts()->counts();
      counts -= before;
      const bool none_on_disk = parted.plan().experts.num_on_disk == 0;
      if (std::string_view(split.name) != "fetched") {
        EXPECT_GT(counts.computed, 0);
      } else if (none_on_disk) {
        EXPECT_EQ(counts.computed, 0);
      }
      EXPECT_GE(counts.computed_rows, counts.computed);
    }
    EXPECT_GT(parted.expert_places()->computed->requests, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Presets, CudaHostExperts, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& param) {
                           std::string name(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// The released shapes of an expert.
TEST(CudaHostExpertsFlash, LogitsDoNotDependOnWhoComputes) {
  BALEEN_NEEDS_USABLE_GPU();
  const ModelConfig config = with_experts(with_layers(preset_config("flash"), 4), 24);
  ThreadPool pool(default_num_threads());
  const std::shared_ptr<const ModelWeights> weights =
      made_up_weights(config, 1, pool, MadeUpBytes::kOfEachTensor);
  EngineOptions plain = computing(options());
  plain.drafts = false;
  plain.num_threads = default_num_threads();
  Engine whole(weights, plain);
  const std::vector<TokenId> tokens = test::random_tokens(24, 512, 7);
  const auto want = test::run_sequence(whole, tokens, 1);
  const std::vector<float> largest = batched(whole, kMaxSequences, kSteps);
  for (const double host_share : {1.0, 0.5}) {
    Engine parted(weights, with_share(whole.weights(), 0.1, plain, host_share));
    ASSERT_NE(parted.experts(), nullptr);
    for (const ForcedSplit& split : kSplits) {
      SCOPED_TRACE(split.name);
      if (split.times) parted.experts()->hold_times(*split.times);
      EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 1).main, want.main);
      const std::int64_t batches[] = {2, 8};
      expect_batches(parted, largest, batches);
    }
    EXPECT_GT(parted.experts()->counts().computed, 0);
  }
}

/// The draft head's blocks are added up in the stated order too, wherever the layers' experts lie.
TEST(CudaHostExpertsV41, DraftsDoNotDependOnWhoComputes) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(v41_config(), 3, "models/stories");
  Engine whole(checkpoint.path(), computing(drafting(options())));
  ASSERT_EQ(whole.experts(), nullptr);
  std::vector<std::vector<float>> drafts;
  for (const std::int64_t count : kDrafting) drafts.push_back(drafted(whole, count));
  for (const double host_share : {1.0, 0.4}) {
    SCOPED_TRACE(fmt::format("{} of those away on the host", host_share));
    Engine parted(checkpoint.path(),
                  with_share(whole.weights(), 0.1, computing(drafting(options())), host_share));
    ASSERT_NE(parted.experts(), nullptr);
    for (const ForcedSplit& split : kSplits) {
      SCOPED_TRACE(split.name);
      if (split.times) parted.experts()->hold_times(*split.times);
      for (std::size_t i = 0; i < drafts.size(); ++i)
        EXPECT_SAME_BITS(drafted(parted, kDrafting[i]), drafts[i]);
    }
    EXPECT_GT(parted.experts()->counts().computed, 0);
  }
}

/// The rows come over a link that is slower than it is; nothing else changes.
TEST(CudaHostExpertsLink, AnImposedLinkChangesNoBit) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(config_of("tiny-flash"));
  Engine whole(checkpoint.path(), computing(options()));
  EngineOptions slow = with_share(whole.weights(), 0.3, computing(options()));
  slow.imposed_link_rate = 1e9;
  Engine parted(checkpoint.path(), slow);
  const std::vector<TokenId> tokens = test::random_tokens(40, 512, 7);
  EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 1).main, test::run_sequence(whole, tokens, 1).main);
  EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 7).main, test::run_sequence(whole, tokens, 7).main);
}

/// `auto` may fetch all of them or not, by what is measured at start: the bits are the stated order's.
TEST(CudaHostExpertsAuto, TakesTheStatedOrderWhateverIsMeasured) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(config_of("tiny-flash"));
  Engine whole(checkpoint.path(), computing(options()));
  for (const std::optional<double> link_rate : {std::optional<double>(), {1e8}, {1e12}}) {
    EngineOptions automatic = with_share(whole.weights(), 0.3, options());
    automatic.host_experts = HostExpertsMode::kAuto;
    automatic.imposed_link_rate = link_rate;
    Engine parted(checkpoint.path(), automatic);
    const std::vector<TokenId> tokens = test::random_tokens(40, 512, 7);
    EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 1).main, test::run_sequence(whole, tokens, 1).main);
    EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 7).main, test::run_sequence(whole, tokens, 7).main);
  }
}

/// Without the MTP block its experts are in neither memory.
TEST(CudaOffloadMtp, ABlockThatIsNotRunTakesNoRoom) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(config_of("tiny-flash"));
  EngineOptions plain = options();
  plain.drafts = false;
  Engine whole(checkpoint.path(), plain);
  Engine parted(checkpoint.path(), with_share(whole.weights(), 0.3, plain));
  ASSERT_NE(parted.experts(), nullptr);
  EXPECT_EQ(parted.plan().experts.num_blocks, whole.config().num_hidden_layers);
  const std::vector<TokenId> tokens = test::random_tokens(40, 512, 7);
  EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 5).main, test::run_sequence(whole, tokens, 5).main);
}

}  // namespace
}  // namespace baleen
