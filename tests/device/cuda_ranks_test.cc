// The forward pass over ranks on GPUs of this machine, as many as there are, queued and replayed, against one
// GPU.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "comm/local_communicator.h"
#include "comm/peer/peer_memory.h"
#include "device/cuda_device.h"
#include "device/hopper_traits.h"
#include "model/device_weights.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model_files/made_up.h"
#include "tests/support/gpu_ranks.h"
#include "tests/support/reading_rank.h"

namespace baleen {
namespace {

using test::Logits;
using test::Reading;

constexpr std::chrono::seconds kLongestWait{30};

DeviceOptions device_options(const ModelConfig& config) {
  return {.scratch_bytes = test::reading_scratch(config, hopper_traits()),
          .max_rows = test::kMaxReadingRows,
          .max_sequences = 8,
          .max_pages = 4};
}

/// One rank on its GPU, or on one that it shares with others.
class GpuRank {
 public:
  GpuRank(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout, int gpu)
      : config_(rank_config(config, layout.plan(), layout.stage())),
        share_(config, whole, layout),
        device_(gpu, device_options(config_)),
        weights_(share_.tree(), device_.memory()),
        reading_(config_, weights_.tree(), device_, layout, Precision::kReleased) {}

  CudaDevice& device() { return device_; }
  test::ReadingRank& reading() { return reading_; }

 private:
  ModelConfig config_;
  RankWeights share_;
  CudaDevice device_;
  DeviceWeights weights_;
  test::ReadingRank reading_;
};

class CudaRanks : public test::WithNccl {
 protected:
  void SetUp() override { BALEEN_NEEDS_GPUS(1); }

  void load(const char* preset) {
    config_ = preset_config(preset);
    ThreadPool pool(2);
    weights_ = made_up_weights(config_, 7, pool, MadeUpBytes::kOfEachTensor);
  }

  /// Logits that each rank has at the end. `captured`: up to so many rows a step is replayed.
  std::vector<Logits> run(const ParallelPlan& given, const Reading& reading, std::int64_t captured) {
    ParallelPlan plan = resolved(given, config_);
    plan.shared_tp = 1;
    const bool dispatches =
        expert_transport(plan, DeviceKind::kCuda).transport == ExpertTransport::kPeerMemory;
    if (by_nccl_ && dispatches) plan.expert_transport = ExpertTransport::kNccl;
    check_runnable(plan, config_);
    const std::vector<int> gpus = test::gpus_of_ranks(plan.num_devices);
    std::optional<PeerMemory> peers;
    if (gpus.size() > 1 && !by_nccl_) peers.emplace(gpus, kLongestWait);
    LocalExchange exchange(kLongestWait);
    std::barrier<> all_ready(plan.num_devices);
    std::vector<Logits> results(gpus.size());
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < plan.num_devices; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const std::int64_t stage = rank / plan.stage_ranks();
          const RankLayout layout(config_, plan, even_stage(config_, plan.pp, stage), stage,
                                  rank % plan.stage_ranks());
          LocalCommunicator host(exchange);
          GpuRank one(config_, weights_->tree(), layout, gpus[static_cast<std::size_t>(rank)]);
          if (gpus.size() > 1) {
            one.device().connect(by_nccl_ ? nccl()->rank(rank) : peers->rank(rank), host,
                                 plan.dp > 1 ? layout.stage_ranks() : RankGroup{.ranks = {rank}});
          }
          all_ready.arrive_and_wait();
          one.reading().capture(captured);
          results[static_cast<std::size_t>(rank)] = one.reading().read(reading);
          all_ready.arrive_and_wait();  // memory is freed when no rank waits for another any more
        } catch (const std::exception& error) {
          exchange.stop(error.what());
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
          all_ready.arrive_and_drop();
        }
      });
    }
    threads.clear();
    return results;
  }

  /// As of one GPU, bit for bit, queued and replayed.
  void expect_bits_of_one_gpu(const ParallelPlan& plan, const Reading& reading) {
    SCOPED_TRACE(to_text(resolved(plan, config_)));
    const Logits one = run({.num_devices = 1}, reading, 0).front();
    for (const std::int64_t captured : {0, 4}) {
      std::vector<int> num_found(one.size());
      for (const Logits& logits : run(plan, reading, captured)) {
        for (std::size_t s = 0; s < logits.size(); ++s) {
          if (logits[s].empty()) continue;
          ++num_found[s];
          EXPECT_TRUE(logits[s] == one[s]) << "sequence " << s << ", captured " << captured;
        }
      }
      for (const int found : num_found) EXPECT_EQ(found, resolved(plan, config_).group_ranks());
    }
  }

  ModelConfig config_;
  std::unique_ptr<ModelWeights> weights_;
  bool by_nccl_ = false;
};

/// The same ranks, on GPUs of their own, with all messages by NCCL.
class CudaRanksByNccl : public CudaRanks {
 protected:
  void SetUp() override {
    BALEEN_NEEDS_GPUS(2);
    if (const std::string why = test::why_not_nccl_ranks(2); !why.empty()) GTEST_SKIP() << why;
    by_nccl_ = true;
    static_cast<void>(nccl());  // joined before threads ask for it
  }
};

TEST_F(CudaRanks, ExpertParallel) {
  load("tiny-flash");
  for (const std::int64_t ranks : {2, 4})
    expect_bits_of_one_gpu({.num_devices = ranks, .dp = ranks}, {{150, 9, 40, 3}, 4});
  load("tiny-real-heads");
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{20, 9, 31}, 4});
}

/// More rows than any graph has on one rank, few on the other.
TEST_F(CudaRanks, StepsOfVeryDifferentSizes) {
  load("tiny-flash");
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{400, 9}, 2});
}

TEST_F(CudaRanks, ARankWithoutRequestsJoins) {
  load("tiny-flash");
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{90}, 3});
}

TEST_F(CudaRanks, Pipeline) {
  load("tiny-flash");
  expect_bits_of_one_gpu({.num_devices = 2, .pp = 2}, {{150, 9, 40, 3}, 4});
  expect_bits_of_one_gpu({.num_devices = 4, .dp = 2, .pp = 2}, {{150, 9, 40, 3}, 4});
}

/// Wherever experts lie, and however many copies of them there are.
TEST_F(CudaRanks, ExpertMaps) {
  load("tiny-flash");
  const Reading reading{{150, 9, 40, 3}, 4};
  constexpr ExpertOrder kRoundRobin = ExpertOrder::kRoundRobin;
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2, .expert_placement = kRoundRobin}, reading);
  expect_bits_of_one_gpu({.num_devices = 3, .dp = 3, .redundant_experts = 1}, reading);
  expect_bits_of_one_gpu({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .redundant_experts = 4}, reading);
  // 512 logits are not cut into three parts of whole vectors.
  expect_bits_of_one_gpu({.num_devices = 3, .cp = 3, .lmhead_tp = 1, .redundant_experts = 1}, reading);
}

/// Ranks share out the rows of a step; those of few rows leave some ranks without any.
TEST_F(CudaRanks, SequenceParallel) {
  load("tiny-flash");
  for (const Reading& reading : {Reading{{150, 9, 40, 3}, 4}, Reading{{5}, 3}, Reading{{400, 1}, 2}}) {
    expect_bits_of_one_gpu({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .sequence_parallel = true}, reading);
    expect_bits_of_one_gpu({.num_devices = 4, .tp = 2, .dp = 2, .o_proj_tp = 1, .sequence_parallel = true},
                           reading);
  }
  load("tiny-real-heads");
  expect_bits_of_one_gpu({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .sequence_parallel = true},
                         {{20, 9, 31}, 4});
}

TEST_F(CudaRanks, ContextParallel) {
  load("tiny-flash");
  for (const Reading& reading : {Reading{{150, 9, 40, 3}, 4}, Reading{{5}, 3}, Reading{{400, 1}, 2}}) {
    expect_bits_of_one_gpu({.num_devices = 2, .cp = 2}, reading);
    expect_bits_of_one_gpu({.num_devices = 4, .cp = 2, .dp = 2}, reading);
  }
  load("tiny-real-heads");
  expect_bits_of_one_gpu({.num_devices = 2, .cp = 2}, {{20, 9, 400}, 4});
}

/// Split sums are in an order of their own: the same on all ranks, in every run, queued or replayed.
TEST_F(CudaRanks, TensorParallelAgrees) {
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    load(preset);
    const Reading reading{{150, 9, 40, 3}, 4};
    const ParallelPlan plan{.num_devices = 2, .tp = 2};
    const std::vector<Logits> queued = run(plan, reading, 0), again = run(plan, reading, 0),
                              replayed = run(plan, reading, 4);
    EXPECT_TRUE(queued == again) << preset;
    EXPECT_TRUE(queued == replayed) << preset;
    EXPECT_TRUE(queued[0] == queued[1]) << preset;
    for (const float value : queued[0].front()) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_F(CudaRanksByNccl, BitsOfOneGpu) {
  load("tiny-flash");
  const Reading reading{{150, 9, 40, 3}, 4};
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, reading);
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{400, 9}, 2});
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{90}, 3});
  expect_bits_of_one_gpu({.num_devices = 2, .pp = 2}, reading);
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2, .expert_placement = ExpertOrder::kRoundRobin}, reading);
  expect_bits_of_one_gpu({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .redundant_experts = 4}, reading);
  expect_bits_of_one_gpu({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .sequence_parallel = true}, {{5}, 3});
  expect_bits_of_one_gpu({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .sequence_parallel = true},
                         {{400, 1}, 2});
  expect_bits_of_one_gpu({.num_devices = 2, .cp = 2}, reading);
  load("tiny-real-heads");
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{20, 9, 31}, 4});
}

/// Sums of the plan, whichever way its messages go.
TEST_F(CudaRanksByNccl, TensorParallelHasTheBitsOfPeerMemory) {
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    load(preset);
    const Reading reading{{150, 9, 40, 3}, 4};
    const ParallelPlan plan{.num_devices = 2, .tp = 2};
    const std::vector<Logits> queued = run(plan, reading, 0), replayed = run(plan, reading, 4);
    by_nccl_ = false;
    const std::vector<Logits> by_peers = run(plan, reading, 4);
    by_nccl_ = true;
    EXPECT_TRUE(queued == by_peers) << preset;
    EXPECT_TRUE(replayed == by_peers) << preset;
  }
}

}  // namespace
}  // namespace baleen
