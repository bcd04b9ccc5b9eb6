// The forward pass over ranks on GPUs of this machine, as many as there are, queued and replayed, against one
// GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "comm/local_communicator.h"
#include "comm/peer/peer_memory.h"
#include "device/cpu_device.h"
#include "device/cuda/cuda_device.h"
#include "device/sm90/kernels.h"
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

DeviceOptions device_options(const RankConfig& config) {
  return {.scratch_bytes = test::reading_scratch(config, planned_gpu().architecture->traits),
          .max_rows = test::kMaxReadingRows,
          .max_sequences = 8,
          .max_pages = 4,
          .two_batches = true};
}

/// One rank on its GPU, or on one that it shares with others.
class GpuRank {
 public:
  GpuRank(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout, int gpu)
      : config_(rank_config(config, layout.plan(), layout.stage())),
        share_(config, whole, layout),
        device_(gpu, planned_gpu().architecture->traits, sm90::kernels(), device_options(config_)),
        weights_(share_.tree(), device_.memory()),
        reading_(config_, weights_.tree(), device_, layout, Precision::kReleased) {}

  CudaDevice& device() { return device_; }
  test::ReadingRank& reading() { return reading_; }

 private:
  RankConfig config_;
  RankWeights share_;
  CudaDevice device_;
  DeviceWeights weights_;
  test::ReadingRank reading_;
};

class CudaRanks : public test::WithNccl {
 protected:
  void SetUp() override { BALEEN_NEEDS_GPUS(1); }

  /// With another inner width of experts unless `inner_width` is 0.
  void load(const char* preset, std::int64_t inner_width = 0) {
    config_ = preset_config(preset);
    if (inner_width > 0) config_.moe_intermediate_size = inner_width;
    ThreadPool pool(2);
    weights_ = made_up_weights(config_, 7, pool, MadeUpBytes::kOfEachTensor);
  }

  /// Logits that each rank has at the end. `captured`: up to so many rows a step is replayed.
  std::vector<Logits> run(const ParallelPlan& given, const Reading& reading, std::int64_t captured) {
    ParallelPlan plan = resolved(given, config_);
    const bool dispatches = expert_transport(plan, device_traits(planned_gpu(), 1)).way.has_value();
    if (by_nccl_ && dispatches) plan.expert_transport = ExpertTransport::kNccl;
    check_runnable(plan, config_);
    const std::vector<int> gpus = test::gpus_of_ranks(plan.num_devices);
    std::optional<PeerMemory> peers;
    if (gpus.size() > 1 && !by_nccl_) peers.emplace(gpus, kLongestWait, messages_);
    LocalExchange exchange(kLongestWait);
    std::barrier<> all_ready(plan.num_devices);
    std::vector<Logits> results(gpus.size());
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < plan.num_devices; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const std::int64_t stage = rank / plan.stage_ranks();
          const RankLayout layout(config_, plan, stage_of(config_, plan, stage), stage,
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
          for (const char* variant : {"sm90/fused_few_tokens", "sm90/fused_many_tokens"})
            fused_runs_ += one.device().num_runs("fused_experts", variant);
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

  /// Logits of the first rank of ranks on the CPU.
  Logits run_on_cpu(const ParallelPlan& given, const Reading& reading) {
    const ParallelPlan plan = resolved(given, config_);
    LocalExchange exchange(kLongestWait);
    std::vector<Logits> results(static_cast<std::size_t>(plan.num_devices));
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < plan.num_devices; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const RankLayout layout(config_, plan, even_stage(config_, 1, 0), 0, rank);
          const RankConfig own = rank_config(config_, plan, layout.stage());
          const RankWeights weights(config_, weights_->tree(), layout);
          LocalCommunicator host(exchange);
          CpuDevice device(1, test::reading_scratch(own, cpu_traits(1)));
          device.connect(&host);
          results[static_cast<std::size_t>(rank)] =
              test::ReadingRank(own, weights.tree(), device, layout, Precision::kReleased).read(reading);
        } catch (const std::exception& error) {
          exchange.stop(error.what());
          ADD_FAILURE() << "CPU rank " << rank << ": " << error.what();
        }
      });
    }
    threads.clear();
    return results.front();
  }

  /// The median over positions of ||got - want|| / ||want||.
  double median_error(const Logits& got, const Logits& want) const {
    std::vector<double> errors;
    const auto width = static_cast<std::size_t>(config_.vocab_size);
    for (std::size_t s = 0; s < want.size(); ++s) {
      for (std::size_t begin = 0; begin < want[s].size(); begin += width) {
        double difference = 0, norm = 0;
        for (std::size_t i = begin; i < begin + width; ++i) {
          difference += std::pow(static_cast<double>(got[s][i]) - want[s][i], 2);
          norm += std::pow(want[s][i], 2);
        }
        errors.push_back(std::sqrt(difference / norm));
      }
    }
    std::ranges::sort(errors);
    return errors[errors.size() / 2];
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
  std::atomic<std::int64_t> fused_runs_ = 0;
  bool by_nccl_ = false;
  MessageMemory messages_ = MessageMemory::kDevices;
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

/// Dispatch, experts and combine one after the other or at once, by themselves or by name.
TEST_F(CudaRanks, ExpertTransports) {
  load("tiny-flash");
  for (const ExpertTransport transport :
       {ExpertTransport::kAutomatic, ExpertTransport::kFused, ExpertTransport::kPeerMemory}) {
    fused_runs_ = 0;
    expect_bits_of_one_gpu({.num_devices = 2, .dp = 2, .expert_transport = transport}, {{150, 9, 40, 3}, 4});
    EXPECT_EQ(fused_runs_ > 0, transport != ExpertTransport::kPeerMemory) << static_cast<int>(transport);
  }
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

/// The shared expert runs beside the dispatch.
TEST_F(CudaRanks, LargeSteps) {
  load("tiny-flash");
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{600, 400}, 2});
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2}, {{900, 9}, 2});
}

/// Few rows, which are staged, and more; parts that a rank has no rows of, and ranks that have none.
TEST_F(CudaRanks, TwoMicroBatches) {
  load("tiny-flash");
  for (const std::int64_t ranks : {2, 4}) {
    const ParallelPlan plan{.num_devices = ranks, .dp = ranks, .dual_batch_overlap = true};
    for (const Reading& reading :
         {Reading{{150, 9, 40, 3}, 4}, Reading{{90}, 3}, Reading{{70, 1, 70, 1, 70, 1, 70, 1}, 3},
          Reading{{600, 400}, 2}, Reading{{1000, 9, 9, 3}, 2}})
      expect_bits_of_one_gpu(plan, reading);
  }
  load("tiny-real-heads");
  expect_bits_of_one_gpu({.num_devices = 2, .dp = 2, .dual_batch_overlap = true}, {{20, 9, 31}, 4});
}

TEST_F(CudaRanks, Pipeline) {
  load("tiny-flash");
  expect_bits_of_one_gpu({.num_devices = 2, .pp = 2}, {{150, 9, 40, 3}, 4});
  expect_bits_of_one_gpu({.num_devices = 4, .dp = 2, .pp = 2}, {{150, 9, 40, 3}, 4});
}

/// As between GPUs that have no access to each other's memory: in packets through the host's, some in one
/// part and some in several, between stages that are not alike.
TEST_F(CudaRanks, PipelineThroughTheHostsMemory) {
  load("tiny-flash");
  messages_ = MessageMemory::kHost;
  expect_bits_of_one_gpu({.num_devices = 2, .pp = 2}, {{150, 9, 40, 3}, 4});
  expect_bits_of_one_gpu({.num_devices = 2, .pp = 2, .stage_layers = {4, 1}}, {{600, 400}, 2});
  expect_bits_of_one_gpu({.num_devices = 3, .pp = 3, .stage_layers = {1, 3, 1}}, {{900, 9}, 2});
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

/// Inner widths of routed experts and of the shared one that are split or whole: the same bits on all ranks,
/// in every run, queued or replayed; and as near to CPU ranks of the plan as one GPU is to one CPU rank.
TEST_F(CudaRanks, InnerWidthsAreSplit) {
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    load(preset, 512);
    const Reading reading{{150, 9, 40, 3}, 4};
    const double usual =
        median_error(run({.num_devices = 1}, reading, 0).front(), run_on_cpu({.num_devices = 1}, reading));
    for (const ParallelPlan& plan :
         {ParallelPlan{.num_devices = 2, .tp = 2, .ep = 1, .moe_tp = 2},
          ParallelPlan{.num_devices = 2, .tp = 2}, ParallelPlan{.num_devices = 2, .tp = 2, .shared_tp = 1},
          ParallelPlan{.num_devices = 2, .tp = 2, .ep = 1, .moe_tp = 2, .shared_tp = 1},
          ParallelPlan{.num_devices = 2, .tp = 2, .ep = 1, .moe_tp = 2, .o_proj_tp = 1},
          ParallelPlan{.num_devices = 4, .tp = 4, .ep = 2, .moe_tp = 2, .o_proj_tp = 1, .lmhead_tp = 1}}) {
      SCOPED_TRACE(
          fmt::format("{}: {}, shared tp {}", preset, to_text(resolved(plan, config_)), plan.shared_tp));
      if (!violations(resolved(plan, config_), config_).empty()) continue;
      const std::vector<Logits> queued = run(plan, reading, 0), again = run(plan, reading, 0),
                                replayed = run(plan, reading, 4);
      EXPECT_TRUE(queued == again);
      EXPECT_TRUE(queued == replayed);
      for (const Logits& logits : queued) EXPECT_TRUE(logits == queued.front());
      const double error = median_error(queued.front(), run_on_cpu(plan, reading));
      fmt::print("{}, {}: {:.4f} from CPU ranks; one GPU {:.4f} from one\n", preset,
                 to_text(resolved(plan, config_)), error, usual);
      EXPECT_LT(error, 2 * usual);
    }
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
