// Routed experts in pinned memory of the host: where they lie, whether they move, changes no bit of the
// logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "device/cuda_device.h"
#include "model/expert_block.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

#define BALEEN_NEEDS_USABLE_GPU() \
  if (const std::string why = why_not_cuda(0); !why.empty()) GTEST_SKIP() << why

namespace baleen {
namespace {

constexpr std::int64_t kMaxSequences = 200;
constexpr std::int64_t kBatches[] = {2, 16, 64, kMaxSequences};

EngineOptions options() {
  return {.device = {DeviceKind::kCuda, 0},
          .num_threads = 2,
          .max_batch_tokens = 512,
          .max_logit_rows = 512,
          .max_sequences = kMaxSequences,
          .cache_tokens = 512 * kMaxSequences,
          .mtp = true};
}

/// `some` with room on the GPU for `share` of the routed experts.
EngineOptions with_share(const ModelWeights& weights, double share, EngineOptions some) {
  const ModelConfig& config = weights.config();
  const StorageFormats formats = detect_formats(config, weights.checkpoint());
  ExpertCounts counts{some.mtp ? config.num_blocks() : config.num_hidden_layers, config.n_routed_experts, 0};
  counts.num_on_host = static_cast<std::int64_t>((1 - share) * static_cast<double>(counts.num_in_all()));
  some.gpu_weight_bytes = device_bytes_beside_experts(config, formats) +
                          ExpertStore::device_bytes(counts, ExpertBlock(config, formats).bytes());
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

/// Every block's experts on the host against as many of the GPU's, the first against the first.
void swap_as_many_as_can_be(ExpertStore& store) {
  for (std::int64_t block = 0; block < store.placement().counts().num_blocks; ++block) {
    std::vector<std::int64_t> host, device;
    for (std::int64_t expert = 0; expert < store.placement().counts().num_experts; ++expert)
      (store.placement().on_host(block, expert) ? host : device).push_back(expert);
    for (std::size_t i = 0; i < std::min(host.size(), device.size()); ++i)
      store.swap({block, host[i], device[i]});
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

class CudaOffload : public testing::TestWithParam<const char*> {};

TEST_P(CudaOffload, LogitsDoNotDependOnWhereExpertsLie) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint(GetParam());
  Engine whole(checkpoint.path(), options());
  ASSERT_EQ(whole.experts(), nullptr);
  const AllLogits want = all_logits(whole, 300);
  for (const double share : {0.0, 0.1, 0.3}) {
    SCOPED_TRACE(share);
    Engine parted(checkpoint.path(), with_share(whole.weights(), share, options()));
    ASSERT_NE(parted.experts(), nullptr);
    EXPECT_GT(parted.plan().experts.num_on_host, 0);
    expect_same(all_logits(parted, 300), want);
    swap_as_many_as_can_be(*parted.experts());
    expect_same(all_logits(parted, 300), want);
    expect_batches(parted, want.batch, kBatches);
  }
}
INSTANTIATE_TEST_SUITE_P(Presets, CudaOffload, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& param) {
                           std::string name(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// The released shapes of an expert, each with bytes of its own.
TEST(CudaOffloadFlash, LogitsDoNotDependOnWhereExpertsLie) {
  BALEEN_NEEDS_USABLE_GPU();
  const ModelConfig config = with_experts(with_layers(preset_config("flash"), 4), 12);
  ThreadPool pool(default_num_threads());
  const auto weights = [&] { return made_up_weights(config, 1, pool, MadeUpBytes::kOfEachTensor); };
  EngineOptions plain = options();
  plain.mtp = false;
  Engine whole(weights(), plain);
  const AllLogits want = all_logits(whole, 300);
  Engine parted(weights(), with_share(whole.weights(), 0.3, plain));
  ASSERT_NE(parted.experts(), nullptr);
  expect_same(all_logits(parted, 300), want);
  swap_as_many_as_can_be(*parted.experts());
  expect_same(all_logits(parted, 300), want);
  const std::int64_t batches[] = {2, 16};
  expect_batches(parted, want.batch, batches);
}

/// Without the MTP block its experts are in neither memory.
TEST(CudaOffloadMtp, ABlockThatIsNotRunTakesNoRoom) {
  BALEEN_NEEDS_USABLE_GPU();
  const test::RandomCheckpoint checkpoint("tiny-flash");
  EngineOptions plain = options();
  plain.mtp = false;
  Engine whole(checkpoint.path(), plain);
  Engine parted(checkpoint.path(), with_share(whole.weights(), 0.3, plain));
  ASSERT_NE(parted.experts(), nullptr);
  EXPECT_EQ(parted.plan().experts.num_blocks, whole.config().num_hidden_layers);
  const std::vector<TokenId> tokens = test::random_tokens(40, 512, 7);
  EXPECT_SAME_BITS(test::run_sequence(parted, tokens, 5).main, test::run_sequence(whole, tokens, 5).main);
}

}  // namespace
}  // namespace baleen
