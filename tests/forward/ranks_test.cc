// The forward pass over ranks that are threads of this process, with the CPU's kernels and real messages,
// against one rank.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "comm/local_communicator.h"
#include "device/cpu_device.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model_files/made_up.h"
#include "tests/support/reading_rank.h"

namespace baleen {
namespace {

using test::Logits;
using test::Reading;

/// One rank with its device, cache and buffers.
class Rank {
 public:
  Rank(const ModelConfig& config, const WeightTree& whole, const RankLayout& layout, Precision precision,
       LocalExchange& exchange)
      : config_(rank_config(config, layout.plan(), layout.stage())),
        weights_(config, whole, layout),
        communicator_(exchange),
        device_(1, test::reading_scratch(config_, cpu_traits(1))),
        reading_(config_, weights_.tree(), device_, layout, precision) {
    device_.connect(&communicator_, layout.stage_ranks());
  }
  Logits read(const Reading& reading) { return reading_.read(reading); }

 private:
  RankConfig config_;
  RankWeights weights_;
  LocalCommunicator communicator_;
  CpuDevice device_;
  test::ReadingRank reading_;
};

class Ranks : public testing::Test {
 protected:
  /// With another inner width of experts unless `inner_width` is 0.
  void load(const char* preset, std::int64_t inner_width = 0) {
    config_ = preset_config(preset);
    if (inner_width > 0) config_.moe_intermediate_size = inner_width;
    ThreadPool pool(1);
    weights_ = made_up_weights(config_, 7, pool, MadeUpBytes::kOfEachTensor);
  }

  /// Logits that each rank has at the end.
  std::vector<Logits> run(const ParallelPlan& given, const Reading& reading,
                          Precision precision = Precision::kReleased) {
    const ParallelPlan plan = resolved(given, config_);
    check_runnable(plan, config_);
    LocalExchange exchange(std::chrono::seconds(120));
    std::vector<Logits> results(static_cast<std::size_t>(plan.num_devices));
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < plan.num_devices; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const std::int64_t stage = rank / plan.stage_ranks();
          Rank one(config_, weights_->tree(),
                   RankLayout(config_, plan, even_stage(config_, plan.pp, stage), stage,
                              rank % plan.stage_ranks()),
                   precision, exchange);
          results[static_cast<std::size_t>(rank)] = one.read(reading);
        } catch (const std::exception& error) {
          exchange.stop(error.what());
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    threads.clear();
    return results;
  }

  /// Every rank that has logits of a sequence has those of one rank, bit for bit; every sequence is on some
  /// rank.
  void expect_bits_of_one_rank(const ParallelPlan& plan, const Reading& reading) {
    SCOPED_TRACE(to_text(resolved(plan, config_)));
    const Logits one = run({.num_devices = 1}, reading).front();
    std::vector<int> num_found(one.size());
    for (const Logits& logits : run(plan, reading)) {
      for (std::size_t s = 0; s < logits.size(); ++s) {
        if (logits[s].empty()) continue;
        ++num_found[s];
        EXPECT_TRUE(logits[s] == one[s]) << "sequence " << s;
      }
    }
    for (const int found : num_found) EXPECT_EQ(found, resolved(plan, config_).group_ranks());
  }

  ModelConfig config_;
  std::unique_ptr<ModelWeights> weights_;
  const Reading reading_{{150, 9, 40, 3}};
};

TEST_F(Ranks, ExpertParallel) {
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 2, .dp = 2}, reading_);
  expect_bits_of_one_rank({.num_devices = 4, .dp = 4}, reading_);
  load("tiny-real-heads");
  expect_bits_of_one_rank({.num_devices = 3, .dp = 3}, {{20, 9, 31}});
}

TEST_F(Ranks, ARankWithoutRequestsJoins) {
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 4, .dp = 4}, {{150, 9}});
}

/// Neither where experts lie nor which copy computes changes a bit; 8 ranks with 8 experts hold two each.
TEST_F(Ranks, AnyPlacementAndRedundancy) {
  constexpr ExpertOrder kRoundRobin = ExpertOrder::kRoundRobin;
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 1, .expert_placement = kRoundRobin}, reading_);
  expect_bits_of_one_rank({.num_devices = 2, .dp = 2, .expert_placement = kRoundRobin}, reading_);
  expect_bits_of_one_rank({.num_devices = 2, .dp = 2, .redundant_experts = 6}, reading_);
  expect_bits_of_one_rank({.num_devices = 3, .dp = 3, .redundant_experts = 1}, reading_);
  expect_bits_of_one_rank(
      {.num_devices = 4, .dp = 4, .redundant_experts = 4, .expert_placement = kRoundRobin}, reading_);
  expect_bits_of_one_rank({.num_devices = 8, .dp = 8, .redundant_experts = 8}, {{30, 9}});
  expect_bits_of_one_rank({.num_devices = 4, .dp = 2, .pp = 2, .redundant_experts = 2}, reading_);
}

/// Ranks with the same tokens send them too, because sums in the order of ranks would depend on placement.
TEST_F(Ranks, PlacementUnderTensorParallelAttention) {
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .redundant_experts = 2}, reading_);
  expect_bits_of_one_rank(
      {.num_devices = 4, .tp = 4, .o_proj_tp = 1, .expert_placement = ExpertOrder::kRoundRobin}, {{20, 5}});
}

/// Every rank gets all rows and picks: the bits of one rank, for any number of ranks, any placement, and
/// ranks without requests.
TEST_F(Ranks, GatheredRowsWhoseOutputsReturn) {
  constexpr ExpertOrder kRoundRobin = ExpertOrder::kRoundRobin;
  constexpr ExpertTransport kAllGather = ExpertTransport::kAllGather;
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 2, .dp = 2, .expert_transport = kAllGather}, reading_);
  expect_bits_of_one_rank({.num_devices = 4, .dp = 4, .expert_transport = kAllGather}, {{150, 9}});
  expect_bits_of_one_rank({.num_devices = 3, .dp = 3, .redundant_experts = 1, .expert_transport = kAllGather},
                          reading_);
  expect_bits_of_one_rank({.num_devices = 8,
                           .dp = 8,
                           .redundant_experts = 8,
                           .expert_placement = kRoundRobin,
                           .expert_transport = kAllGather},
                          {{30, 9}});
  expect_bits_of_one_rank({.num_devices = 4, .dp = 2, .pp = 2, .expert_transport = kAllGather}, reading_);
  load("tiny-real-heads");
  expect_bits_of_one_rank({.num_devices = 3, .dp = 3, .expert_transport = kAllGather}, {{20, 9, 31}});
}

/// Ranks with the same tokens may send or gather them as well: then they keep the bits, which sums do not.
TEST_F(Ranks, AnyTransportUnderTensorParallelAttention) {
  load("tiny-flash");
  for (const ExpertTransport transport : {ExpertTransport::kAllToAll, ExpertTransport::kAllGather}) {
    expect_bits_of_one_rank({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .expert_transport = transport},
                            reading_);
    expect_bits_of_one_rank({.num_devices = 4,
                             .tp = 2,
                             .dp = 2,
                             .o_proj_tp = 1,
                             .sequence_parallel = true,
                             .expert_transport = transport},
                            reading_);
  }
}

TEST_F(Ranks, Pipeline) {
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 2, .pp = 2}, reading_);
  expect_bits_of_one_rank({.num_devices = 3, .pp = 3}, reading_);
  expect_bits_of_one_rank({.num_devices = 4, .dp = 2, .pp = 2}, reading_);
}

/// With the output projection whole on every rank no sum is split: heads and rows are, and bits stay.
TEST_F(Ranks, SequenceParallel) {
  load("tiny-flash");
  expect_bits_of_one_rank({.num_devices = 2, .tp = 2, .o_proj_tp = 1, .sequence_parallel = true}, reading_);
  expect_bits_of_one_rank({.num_devices = 4, .tp = 4, .o_proj_tp = 1, .sequence_parallel = true}, {{1, 5}});
  expect_bits_of_one_rank({.num_devices = 4, .tp = 2, .dp = 2, .o_proj_tp = 1, .sequence_parallel = true},
                          reading_);
  expect_bits_of_one_rank({.num_devices = 4, .tp = 2, .dp = 2, .o_proj_tp = 1}, reading_);
}

/// Experts whose inner width is split, and a shared expert that every rank computes a part of: what returns
/// are parts, so the bits are the plan's own, whichever way rows come.
TEST_F(Ranks, SplitExpertsByAnyTransport) {
  load("tiny-flash", 256);
  const Reading reading{{40, 9, 31}};
  const Logits one = run({.num_devices = 1}, reading, Precision::kExact).front();
  const auto with = [](ParallelPlan plan, ExpertTransport transport) {
    plan.expert_transport = transport;
    return plan;
  };
  const ParallelPlan inner{.num_devices = 2, .dp = 2, .ep = 1, .moe_tp = 2};
  const ParallelPlan both{.num_devices = 4, .dp = 4, .ep = 2, .moe_tp = 2};
  for (const ParallelPlan& plan : {inner, both}) {
    SCOPED_TRACE(to_text(resolved(plan, config_)));
    EXPECT_TRUE(run(plan, reading) == run(with(plan, ExpertTransport::kAllGather), reading));
  }
  for (const ParallelPlan& plan :
       {with(inner, ExpertTransport::kReduceScatter), with(both, ExpertTransport::kReduceScatter),
        ParallelPlan{.num_devices = 2, .dp = 2, .expert_transport = ExpertTransport::kReduceScatter}}) {
    SCOPED_TRACE(to_text(resolved(plan, config_)));
    for (const Logits& logits : run(plan, reading, Precision::kExact)) {
      for (std::size_t s = 0; s < one.size(); ++s) {
        for (std::size_t i = 0; i < logits[s].size(); ++i)
          ASSERT_NEAR(logits[s][i], one[s][i], 1e-3 * (1 + std::abs(one[s][i]))) << s << " " << i;
      }
    }
  }
}

/// No sum is split, so any number of ranks has one rank's bits: rows that do not divide, fewer rows than
/// ranks, with expert, data and pipeline parallelism.
TEST_F(Ranks, ContextParallel) {
  load("tiny-flash");
  for (const std::int64_t cp : {2, 4, 8}) {
    expect_bits_of_one_rank({.num_devices = cp, .cp = cp}, reading_);
    expect_bits_of_one_rank({.num_devices = cp, .cp = cp}, {{1, 2}});
  }
  expect_bits_of_one_rank({.num_devices = 4, .cp = 2, .dp = 2}, reading_);
  expect_bits_of_one_rank({.num_devices = 4, .cp = 2, .dp = 2}, {{150}});
  expect_bits_of_one_rank({.num_devices = 4, .cp = 2, .pp = 2}, reading_);
  expect_bits_of_one_rank({.num_devices = 8, .cp = 2, .dp = 2, .pp = 2}, reading_);
  expect_bits_of_one_rank({.num_devices = 2, .cp = 2, .lmhead_tp = 1}, reading_);
  expect_bits_of_one_rank(
      {.num_devices = 4, .cp = 2, .dp = 2, .expert_transport = ExpertTransport::kAllGather}, reading_);
}

/// Prompts that are cut and mixed at random, over a number of ranks that need not divide them.
TEST_F(Ranks, ContextParallelOfRandomPrompts) {
  const auto seed = static_cast<std::uint64_t>(std::random_device()());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    load(preset);
    for (const std::int64_t cp : {2, 3, 4}) {
      const std::int64_t copies = (cp - config_.n_routed_experts % cp) % cp;
      Reading reading{.prompts = {}, .more_steps = pick(1, 3)};
      const std::int64_t count = pick(1, 4);
      for (std::int64_t i = 0; i < count; ++i) reading.prompts.push_back(pick(1, 130));
      SCOPED_TRACE(std::string(preset) + " " + testing::PrintToString(reading.prompts));
      expect_bits_of_one_rank({.num_devices = cp, .cp = cp, .redundant_experts = copies}, reading);
    }
  }
}

/// Steps that are cut in two: between sequences, through one, with a part that some ranks have no rows of,
/// and of ranks without any.
TEST_F(Ranks, TwoMicroBatches) {
  load("tiny-flash");
  for (const std::int64_t dp : {2, 4}) {
    const ParallelPlan plan{.num_devices = dp, .dp = dp, .dual_batch_overlap = true};
    for (const Reading& reading : {reading_, Reading{{90}, 3}, Reading{{1, 2}, 2},
                                   Reading{{70, 1, 70, 1, 70, 1, 70, 1}, 3}, Reading{{300, 3}, 2}})
      expect_bits_of_one_rank(plan, reading);
  }
  expect_bits_of_one_rank({.num_devices = 4,
                           .dp = 4,
                           .redundant_experts = 4,
                           .expert_placement = ExpertOrder::kRoundRobin,
                           .dual_batch_overlap = true},
                          reading_);
}

TEST_F(Ranks, TwoMicroBatchesOfRandomPrompts) {
  const auto seed = static_cast<std::uint64_t>(std::random_device()());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    load(preset);
    for (const std::int64_t dp : {2, 3}) {
      const std::int64_t copies = (dp - config_.n_routed_experts % dp) % dp;
      Reading reading{.prompts = {}, .more_steps = pick(1, 3)};
      const std::int64_t count = pick(1, 8);
      for (std::int64_t i = 0; i < count; ++i) reading.prompts.push_back(pick(1, 130));
      SCOPED_TRACE(std::string(preset) + " " + testing::PrintToString(reading.prompts));
      expect_bits_of_one_rank(
          {.num_devices = dp, .dp = dp, .redundant_experts = copies, .dual_batch_overlap = true}, reading);
    }
  }
}

/// Sums that are split are in an order of their own: the same on all ranks and in every run, and close to one
/// rank's.
TEST_F(Ranks, TensorParallelAgrees) {
  load("tiny-real-heads");
  const Reading reading{{40, 9, 31, 3}};
  const Logits one = run({.num_devices = 1}, reading, Precision::kExact).front();
  constexpr ExpertTransport kReduceScatter = ExpertTransport::kReduceScatter;
  for (const ParallelPlan& plan :
       {ParallelPlan{.num_devices = 2, .tp = 2}, ParallelPlan{.num_devices = 4, .tp = 4},
        ParallelPlan{.num_devices = 4, .tp = 4, .o_proj_tp = 2},
        ParallelPlan{.num_devices = 4, .tp = 2, .dp = 2},
        ParallelPlan{.num_devices = 4, .tp = 2, .dp = 2, .sequence_parallel = true},
        ParallelPlan{.num_devices = 4, .tp = 2, .pp = 2},
        ParallelPlan{.num_devices = 2, .dp = 2, .expert_transport = kReduceScatter},
        ParallelPlan{.num_devices = 3, .dp = 3, .expert_transport = kReduceScatter},
        ParallelPlan{.num_devices = 4, .tp = 2, .dp = 2, .expert_transport = kReduceScatter},
        ParallelPlan{
            .num_devices = 4, .tp = 4, .sequence_parallel = true, .expert_transport = kReduceScatter},
        ParallelPlan{.num_devices = 4, .dp = 2, .pp = 2, .expert_transport = kReduceScatter}}) {
    SCOPED_TRACE(to_text(resolved(plan, config_)));
    const std::vector<Logits> released = run(plan, reading), again = run(plan, reading);
    EXPECT_TRUE(released == again) << "two runs";
    const std::vector<Logits> exact = run(plan, reading, Precision::kExact);
    for (std::size_t s = 0; s < one.size(); ++s) {
      const std::vector<float>* first = nullptr;
      for (std::size_t rank = 0; rank < released.size(); ++rank) {
        if (released[rank][s].empty()) continue;
        if (first == nullptr) first = &released[rank][s];
        EXPECT_TRUE(released[rank][s] == *first) << "rank " << rank;
        double difference = 0, norm = 0;
        for (std::size_t i = 0; i < one[s].size(); ++i) {
          difference += std::pow(exact[rank][s][i] - one[s][i], 2);
          norm += std::pow(one[s][i], 2);
        }
        EXPECT_LT(std::sqrt(difference / norm), 1e-4) << "rank " << rank << ", sequence " << s;
      }
      EXPECT_NE(first, nullptr);
    }
  }
}

/// Output weights sharded over data-parallel groups: as many rows in each.
TEST_F(Ranks, OutputProjectionOverDataParallelGroups) {
  load("tiny-real-heads");
  const Reading reading{{9, 9, 9, 9}};
  const Logits one = run({.num_devices = 1}, reading, Precision::kExact).front();
  for (const ParallelPlan& plan : {ParallelPlan{.num_devices = 2, .dp = 2, .o_proj_tp = 2},
                                   ParallelPlan{.num_devices = 4, .tp = 2, .dp = 2, .o_proj_tp = 4}}) {
    SCOPED_TRACE(to_text(resolved(plan, config_)));
    for (const Logits& logits : run(plan, reading, Precision::kExact)) {
      for (std::size_t s = 0; s < one.size(); ++s) {
        if (logits[s].empty()) continue;
        for (std::size_t i = 0; i < one[s].size(); ++i)
          ASSERT_NEAR(logits[s][i], one[s][i], 1e-3 * (1 + std::abs(one[s][i]))) << s << " " << i;
      }
    }
  }
}

TEST_F(Ranks, WhatTheyCannotRunIsRefused) {
  load("tiny-flash");
  EXPECT_THROW(
      check_runnable(resolved({.num_devices = 2, .pp = 2, .redundant_experts = 2}, config_), config_), Error);
  EXPECT_THROW(check_runnable(resolved({.num_devices = 2, .lmhead_tp = 2}, config_), config_), Error);
}

}  // namespace
}  // namespace baleen
