// The forward pass over ranks that are threads of this process, with the CPU's kernels and real messages,
// against one rank.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/local_communicator.h"
#include "device/cpu_device.h"
#include "device/make_device.h"
#include "kv_cache/sequence_pages.h"
#include "model/forward.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model_files/made_up.h"

namespace baleen {
namespace {

using Logits =
    std::vector<std::vector<float>>;  ///< of each sequence, rows of its positions one after the other

/// Sequences that are read in two steps: a prompt each, then a token each.
struct Reading {
  std::vector<std::int64_t> prompts;  ///< lengths
  [[nodiscard]] static TokenId token(std::int64_t sequence, std::int64_t position,
                                     const ModelConfig& config) {
    return static_cast<TokenId>((sequence * 131 + position * 37 + 11) % config.vocab_size);
  }
};

constexpr std::int64_t kMaxRows = 512;

/// One rank with its device, cache and buffers.
class Rank {
 public:
  Rank(const ModelConfig& config, const WeightTree& whole, RankLayout layout, Precision precision,
       LocalExchange& exchange)
      : layout_(std::move(layout)),
        config_(rank_config(config, layout_.plan(), layout_.stage())),
        weights_(config, whole, layout_),
        communicator_(exchange),
        device_(1, scratch(config_)),
        cache_(cache_geometry(config_, precision), {16, 16, 8}),
        arena_(forward_buffer_bytes(config_, kMaxRows, ElementType::kF32)),
        forward_(config_, weights_.tree(), device_, cache_, precision, kMaxRows, arena_, layout_) {
    device_.connect(&communicator_);
  }

  /// Logits of the sequences of this rank's group; nothing for others, and nothing before the last stage.
  Logits read(const Reading& reading) {
    Logits logits(reading.prompts.size());
    std::vector<std::int64_t> own;
    for (std::int64_t s = 0; s < std::ssize(reading.prompts); ++s) {
      if (s % layout_.plan().dp != layout_.dp_index()) continue;
      own.push_back(s);
      pages_.emplace_back(cache_);
    }
    std::vector<std::int64_t> lengths(own.size(), 0);
    for (int step = 0; step < 2; ++step) {
      std::vector<std::int64_t> counts;
      for (const std::int64_t s : own)
        counts.push_back(step == 0 ? reading.prompts[static_cast<std::size_t>(s)] : 1);
      run_step(own, lengths, counts, logits);
    }
    return logits;
  }

 private:
  static std::int64_t scratch(const ModelConfig& config) {
    return scratch_bytes(cpu_traits(1), step_shape(config, 8 * kMaxRows, kMaxRows, 8, 1024));
  }

  void run_step(const std::vector<std::int64_t>& own, std::vector<std::int64_t>& lengths,
                const std::vector<std::int64_t>& counts, Logits& logits) {
    std::vector<TokenId> tokens;
    std::vector<SequenceSlice> slices;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!pages_[i].reach(lengths[i] + counts[i])) fail("no pages");
      slices.push_back({.first_row = std::ssize(tokens),
                        .num_tokens = counts[i],
                        .start = lengths[i],
                        .pages = pages_[i].pages(),
                        .window_pages = pages_[i].window_pages(),
                        .state_slot = pages_[i].state_slot()});
      for (std::int64_t t = 0; t < counts[i]; ++t)
        tokens.push_back(Reading::token(own[i], lengths[i] + t, config_));
      lengths[i] += counts[i];
    }
    const Activations<3> streams = forward_.run({.tokens = tokens, .slices = slices});
    if (!layout_.stage().last) return;
    const auto num_rows = std::ssize(tokens);
    std::vector<float> out(static_cast<std::size_t>(num_rows * config_.vocab_size));
    forward_.logits(streams, {out.data(), {num_rows, config_.vocab_size}});
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto begin = out.begin() + slices[i].first_row * config_.vocab_size;
      std::vector<float>& to = logits[static_cast<std::size_t>(own[i])];
      to.insert(to.end(), begin, begin + counts[i] * config_.vocab_size);
    }
  }

  RankLayout layout_;
  ModelConfig config_;
  RankWeights weights_;
  LocalCommunicator communicator_;
  CpuDevice device_;
  KvCache cache_;
  Arena arena_;
  Forward forward_;
  std::vector<SequencePages> pages_;
};

class Ranks : public testing::Test {
 protected:
  void load(const char* preset) {
    config_ = preset_config(preset);
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
    for (const int found : num_found) EXPECT_EQ(found, resolved(plan, config_).tp);
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

/// Sums that are split are in an order of their own: the same on all ranks and in every run, and close to one
/// rank's.
TEST_F(Ranks, TensorParallelAgrees) {
  load("tiny-real-heads");
  const Reading reading{{40, 9, 31, 3}};
  const Logits one = run({.num_devices = 1}, reading, Precision::kExact).front();
  for (const ParallelPlan& plan :
       {ParallelPlan{.num_devices = 2, .tp = 2}, ParallelPlan{.num_devices = 4, .tp = 4},
        ParallelPlan{.num_devices = 4, .tp = 4, .o_proj_tp = 2},
        ParallelPlan{.num_devices = 4, .tp = 2, .dp = 2},
        ParallelPlan{.num_devices = 4, .tp = 2, .dp = 2, .sequence_parallel = true},
        ParallelPlan{.num_devices = 4, .tp = 2, .pp = 2}}) {
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
  EXPECT_THROW(check_runnable(resolved({.num_devices = 2, .redundant_experts = 2}, config_), config_), Error);
  EXPECT_THROW(check_runnable(resolved({.num_devices = 2, .lmhead_tp = 2}, config_), config_), Error);
}

}  // namespace
}  // namespace baleen
