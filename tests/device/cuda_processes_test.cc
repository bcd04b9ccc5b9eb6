// Ranks on GPUs that are processes of their own: the bits of one GPU, and of the same plan as threads.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/peer/peer_process.h"
#include "device/make_device.h"
#include "rank_engine/process_team.h"
#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/socket_world.h"

namespace baleen {
namespace {

constexpr std::int64_t kRanks = 2;
constexpr std::string_view kTooFew = "fewer than two GPUs";

EngineOptions options(const ParallelPlan& plan, GpuMessages messages = GpuMessages::kAutomatic) {
  EngineOptions some{.device = planned_gpu(),
                     .num_threads = 2,
                     .max_batch_tokens = 640,
                     .max_logit_rows = 640,
                     .max_sequences = 4,
                     .cache_tokens = 4096,
                     .max_draft_tokens = 1,
                     .parallel = plan};
  if (plan.is_one_rank()) return some;
  for (int gpu = 0; gpu < kRanks; ++gpu) some.rank_devices.push_back(planned_gpu(gpu));
  some.longest_wait = std::chrono::seconds(30);
  some.messages = messages;
  return some;
}

/// Prompts in one step, of so many rows that ranks tell each other addresses, and tokens one by one, of
/// sequences side by side.
std::vector<float> work(StepEngine& engine, std::uint32_t num_sequences) {
  std::vector<float> seen;
  std::vector<SequenceId> ids;
  std::vector<std::vector<TokenId>> tokens;
  for (std::uint32_t i = 0; i < num_sequences; ++i) {
    tokens.push_back(test::random_tokens(330, 512, i));
    ids.push_back(*engine.open({}));
  }
  const auto run = [&](std::size_t begin, std::size_t count) {
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < ids.size(); ++i)
      inputs.push_back({ids[i], std::span(tokens[i]).subspan(begin, count), WantedLogits::kAll});
    const Result<StepOutput> output = engine.step(inputs);
    if (!output) fail("{}", output.error());
    const auto& logits = output.value().logits;
    seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
  };
  run(0, 300);
  for (std::size_t at = 300; at < 330; ++at) run(at, 1);
  for (const SequenceId id : ids) engine.close(id, false);
  return seen;
}

void expect_same_over_processes(const ParallelPlan& plan, bool bits_of_one_rank, std::uint32_t num_sequences,
                                GpuMessages messages = GpuMessages::kAutomatic) {
  if (messages == GpuMessages::kNccl && !why_not_nccl(planned_gpu()).empty())
    GTEST_SKIP() << why_not_nccl(planned_gpu());
  const test::RandomCheckpoint checkpoint("tiny-real-heads");
  const std::string failed = test::run_processes(kRanks, [&](const std::shared_ptr<MpiWorld>& world) {
    if (num_gpus() < kRanks) fail("{}", kTooFew);
    const auto weights = std::make_shared<const ModelWeights>(checkpoint.path());
    const EngineOptions wanted = resolved(options(plan, messages), weights->config());
    if (world->rank() > 0) {
      try {
        ProcessTeam::follow(world, weights, wanted);
      } catch (const FollowedToTheEnd&) {
        return;
      }
    }
    std::vector<float> got;
    {
      RankEngine engine(std::make_unique<ProcessTeam>(world, weights, wanted), wanted);
      got = work(engine, num_sequences);
    }
    std::vector<float> want;
    if (bits_of_one_rank) {
      Engine one(weights, options({}));
      want = work(one, num_sequences);
    } else {
      // Whichever way messages go, the sums are the plan's.
      const EngineOptions through_memory = resolved(options(plan), weights->config());
      RankEngine threads(std::make_unique<ThreadTeam>(weights, through_memory), through_memory);
      want = work(threads, num_sequences);
    }
    if (const std::string difference = test::bit_difference(got, want); !difference.empty())
      fail("{}", difference);
  });
  if (failed.find(kTooFew) != std::string::npos) GTEST_SKIP() << kTooFew;
  EXPECT_EQ(failed, "") << to_text(plan);
}

TEST(CudaProcesses, DataParallel) { expect_same_over_processes({.dp = 2}, true, 2); }
TEST(CudaProcesses, DataParallelWithAnIdleGroup) { expect_same_over_processes({.dp = 2}, true, 1); }
TEST(CudaProcesses, ContextParallel) { expect_same_over_processes({.cp = 2}, true, 2); }
TEST(CudaProcesses, Pipeline) { expect_same_over_processes({.pp = 2}, true, 2); }
TEST(CudaProcesses, TensorParallel) { expect_same_over_processes({.tp = 2}, false, 2); }

TEST(CudaProcessesByNccl, DataParallel) {
  expect_same_over_processes({.dp = 2}, true, 2, GpuMessages::kNccl);
}
TEST(CudaProcessesByNccl, ContextParallel) {
  expect_same_over_processes({.cp = 2}, true, 2, GpuMessages::kNccl);
}
TEST(CudaProcessesByNccl, Pipeline) { expect_same_over_processes({.pp = 2}, true, 2, GpuMessages::kNccl); }
TEST(CudaProcessesByNccl, TensorParallel) {
  expect_same_over_processes({.tp = 2}, false, 2, GpuMessages::kNccl);
}

TEST(CudaProcesses, OneGpuForTwoIsRefused) {
  const std::string failed = test::run_processes(kRanks, [&](const std::shared_ptr<MpiWorld>& world) {
    if (num_gpus() == 0) fail("{}", kTooFew);
    MpiCommunicator communicator(world, std::chrono::seconds(10));
    const PeerProcess process(0, world->rank(), kRanks, communicator, std::chrono::seconds(10));
  });
  if (failed.find(kTooFew) != std::string::npos) GTEST_SKIP() << kTooFew;
  EXPECT_NE(failed.find("ranks 0 and 1 are processes on one GPU"), std::string::npos) << failed;
}

}  // namespace
}  // namespace baleen
