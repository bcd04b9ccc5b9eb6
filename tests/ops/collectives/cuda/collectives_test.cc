// Collectives over peer memory and over NCCL against their references on arrays: to the bit, on ranks that
// are GPUs of this machine, queued and in graphs, small and large; and what happens when a rank does not
// come.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "ops/collectives/cuda/collectives.h"
#include "ops/collectives/cuda/nccl_collectives.h"
#include "tests/support/gpu_ranks.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::GpuRanks;
using test::TestCuda;

constexpr int kReplays = 5;

/// Sizes in both ways of exchanging, and rows of one, none and many.
struct Shape {
  std::int64_t rows, width;
};
constexpr Shape kShapes[] = {{1, 8}, {1, 4096}, {3, 256}, {37, 4096}, {300, 4096}, {1, 64640}};
struct Case {
  std::int64_t ranks;
  Shape shape;
  bool by_nccl;
};

/// The collectives by either way.
struct Collectives {
  void (*all_reduce)(const AllReduceArgs&, CudaContext&);
  void (*reduce_scatter)(const ReduceScatterArgs&, CudaContext&);
  void (*all_gather)(const AllGatherArgs&, CudaContext&);
  void (*all_to_all)(const AllToAllArgs&, CudaContext&);
  void (*send)(const SendArgs&, CudaContext&);
  void (*receive)(const ReceiveArgs&, CudaContext&);
};
constexpr Collectives kOverPeers{all_reduce, reduce_scatter, all_gather, all_to_all, send, receive};
constexpr Collectives kOverNccl{nccl_all_reduce, nccl_reduce_scatter, nccl_all_gather,
                                nccl_all_to_all, nccl_send,           nccl_receive};

/// Of a rank a GPU, and through peer memory of more ranks than GPUs.
std::vector<Case> all_cases() {
  std::set<std::int64_t> counts{2, 4};
  if (test::num_gpus() > 1) counts.insert(test::num_gpus());
  std::vector<Case> cases;
  for (const std::int64_t ranks : counts) {
    for (const Shape& shape : kShapes) cases.push_back({ranks, shape, false});
  }
  for (const Shape& shape : kShapes) cases.push_back({2, shape, true});
  // In pieces of the buffer.
  cases.push_back({2, {4200, 4096}, true});
  return cases;
}

std::vector<float> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random) * static_cast<float>(1 << random() % 12);
  return values;
}

/// Every rank's array, on the host; a reference's results.
struct Arrays {
  std::vector<std::vector<float>> of_rank;
  Arrays(std::int64_t ranks, std::int64_t count, std::uint32_t seed) {
    for (std::int64_t r = 0; r < ranks; ++r)
      of_rank.push_back(random_values(count, seed + static_cast<std::uint32_t>(r)));
  }
  std::vector<float>& operator[](std::int64_t rank) { return of_rank[static_cast<std::size_t>(rank)]; }
  float* data(std::int64_t rank) { return (*this)[rank].data(); }
};

class CollectivesOnGpu : public test::WithNccl, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    BALEEN_NEEDS_GPUS(1);
    num_ranks_ = GetParam().ranks;
    if (GetParam().by_nccl) {
      if (const std::string why = test::why_not_nccl_ranks(num_ranks_); !why.empty()) GTEST_SKIP() << why;
    }
    for (std::int64_t r = 0; r < num_ranks_; ++r) groups_.push_back(RankGroup::strided(0, 1, num_ranks_, r));
  }
  const Shape& shape() const { return GetParam().shape; }
  const Collectives& ops() const { return GetParam().by_nccl ? kOverNccl : kOverPeers; }
  std::int64_t count() const { return shape().rows * shape().width; }
  std::vector<RowRange> uneven_rows() const {
    std::vector<RowRange> rows;
    for (std::int64_t r = 0; r < num_ranks_; ++r) {
      // The first rank has more than its share, the last perhaps nothing.
      const std::int64_t begin = r == 0 ? 0 : rows.back().end;
      const std::int64_t share = (shape().rows + num_ranks_) / num_ranks_;
      rows.push_back({begin, r + 1 == num_ranks_ ? shape().rows : std::min(begin + share, shape().rows)});
    }
    return rows;
  }

  std::int64_t num_ranks_ = 0;
  std::vector<RankGroup> groups_;
};

TEST_P(CollectivesOnGpu, AllReduce) {
  const auto [rows, width] = shape();
  Arrays x(num_ranks_, count(), 1), y(num_ranks_, count(), 0);
  for (const bool bf16 : {true, false}) {
    std::vector<AllReduceArgs> reference;
    for (std::int64_t r = 0; r < num_ranks_; ++r) {
      reference.push_back({.group = &groups_[static_cast<std::size_t>(r)],
                           .x = Activations<2>(x.data(r), {rows, width}),
                           .precision = bf16 ? Precision::kReleased : Precision::kExact,
                           .y = {y.data(r), {rows, width}}});
    }
    all_reduce_ref(reference);
    GpuRanks ranks(num_ranks_, GetParam().by_nccl ? nccl() : nullptr);
    ranks.run([&, rows = rows, width = width](TestCuda& cuda, const RankGroup& group) {
      float* device_x = cuda.upload(x[group.place]);
      auto* device_y = cuda.allocate<std::byte>(count() * 4);
      ranks.meet();
      const auto work = [&] {
        ops().all_reduce({.group = &group,
                          .x = Activations<2>(device_x, {rows, width}),
                          .precision = bf16 ? Precision::kReleased : Precision::kExact,
                          .y = {device_y, bf16 ? ElementType::kBf16 : ElementType::kF32, {rows, width}}},
                         cuda.context());
      };
      test::run_and_replay(cuda, ranks, work, kReplays);
      const std::vector<float> result =
          bf16 ? cuda.download_bf16(reinterpret_cast<const Bf16Bits*>(device_y), count())
               : cuda.download(reinterpret_cast<const float*>(device_y), count());
      EXPECT_TRUE(result == y[group.place]) << "rank " << group.place << (bf16 ? ", bf16" : ", exact");
      ranks.meet();
    });
  }
}

TEST_P(CollectivesOnGpu, ReduceScatter) {
  const auto [num_rows, width] = shape();
  const std::vector<RowRange> rows = uneven_rows();
  Arrays x(num_ranks_, count(), 3), y(num_ranks_, count(), 0);
  std::vector<ReduceScatterArgs> reference;
  for (std::int64_t r = 0; r < num_ranks_; ++r) {
    reference.push_back({.group = &groups_[static_cast<std::size_t>(r)],
                         .x = Activations<2>(x.data(r), {num_rows, width}),
                         .rows = rows,
                         .y = {y.data(r), {rows[static_cast<std::size_t>(r)].size(), width}}});
  }
  reduce_scatter_ref(reference);
  GpuRanks ranks(num_ranks_, GetParam().by_nccl ? nccl() : nullptr);
  ranks.run([&, num_rows = num_rows, width = width](TestCuda& cuda, const RankGroup& group) {
    const RowRange own = rows[static_cast<std::size_t>(group.place)];
    float* device_x = cuda.upload(x[group.place]);
    auto* device_y = cuda.allocate<Bf16Bits>(count());
    ranks.meet();
    const auto work = [&] {
      ops().reduce_scatter({.group = &group,
                            .x = Activations<2>(device_x, {num_rows, width}),
                            .rows = rows,
                            .y = View<Bf16Bits, 2>(device_y, {own.size(), width})},
                           cuda.context());
    };
    test::run_and_replay(cuda, ranks, work, kReplays);
    y[group.place].resize(static_cast<std::size_t>(own.size() * width));
    EXPECT_TRUE(cuda.download_bf16(device_y, own.size() * width) == y[group.place]) << group.place;
    ranks.meet();
  });
}

TEST_P(CollectivesOnGpu, AllGatherOfRowsInPlace) {
  const auto [num_rows, width] = shape();
  const std::vector<RowRange> rows = uneven_rows();
  const std::vector<float> whole = random_values(count(), 5);
  GpuRanks ranks(num_ranks_, GetParam().by_nccl ? nccl() : nullptr);
  ranks.run([&, num_rows = num_rows, width = width](TestCuda& cuda, const RankGroup& group) {
    const RowRange own = rows[static_cast<std::size_t>(group.place)];
    float* y = cuda.allocate<float>(count());
    cuda.memory().upload(
        reinterpret_cast<std::byte*>(y + own.begin * width),
        std::as_bytes(std::span(whole).subspan(static_cast<std::size_t>(own.begin * width),
                                               static_cast<std::size_t>(own.size() * width))));
    ranks.meet();
    const auto work = [&] {
      const Activations<2> all(y, {num_rows, width});
      ops().all_gather({.group = &group, .x = all.slice(own.begin, own.end), .rows = rows, .y = all},
                       cuda.context());
    };
    test::run_and_replay(cuda, ranks, work, kReplays);
    EXPECT_TRUE(cuda.download(y, count()) == whole) << group.place;
    ranks.meet();
  });
}

TEST_P(CollectivesOnGpu, AllGatherOfColumnsAndAllToAllBack) {
  const auto [num_rows, width] = shape();
  // Rank j has columns [j w, (j + 1) w) of a matrix of all its rows; back and forth gives each its own again.
  GpuRanks ranks(num_ranks_, GetParam().by_nccl ? nccl() : nullptr);
  Arrays parts(num_ranks_, count(), 7);
  ranks.run([&, num_rows = num_rows, width = width](TestCuda& cuda, const RankGroup& group) {
    const float* x = cuda.upload(parts[group.place]);
    float* gathered = cuda.allocate<float>(count() * num_ranks_);
    float* exchanged = cuda.allocate<float>(count() * num_ranks_);
    ranks.meet();
    const auto work = [&] {
      const Activations<2> all(gathered, {num_rows, width * num_ranks_});
      ops().all_gather(
          {.group = &group, .x = ConstActivations<2>(x, {num_rows, width}), .rows = {}, .y = all},
          cuda.context());
      ops().all_to_all({.group = &group, .x = all, .y = {exchanged, {num_rows * num_ranks_, width}}},
                       cuda.context());
    };
    test::run_and_replay(cuda, ranks, work, kReplays);
    const std::vector<float> columns = cuda.download(gathered, count() * num_ranks_);
    const std::vector<float> rows = cuda.download(exchanged, count() * num_ranks_);
    for (std::int64_t j = 0; j < num_ranks_; ++j) {
      for (std::int64_t t = 0; t < num_rows; ++t) {
        for (std::int64_t i = 0; i < width; ++i) {
          const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
          ASSERT_EQ(columns[at((t * num_ranks_ + j) * width + i)], parts[j][at(t * width + i)]);
          ASSERT_EQ(rows[at((j * num_rows + t) * width + i)], parts[group.place][at(t * width + i)]);
        }
      }
    }
    ranks.meet();
  });
}

TEST_P(CollectivesOnGpu, AReceiverHasWhatWasSent) {
  const auto [num_rows, width] = shape();
  const std::vector<float> x = random_values(count(), 11);
  GpuRanks ranks(2, GetParam().by_nccl ? nccl() : nullptr);
  ranks.run([&, num_rows = num_rows, width = width](TestCuda& cuda, const RankGroup& group) {
    float* array = group.place == 0 ? cuda.upload(x) : cuda.allocate<float>(count());
    ranks.meet();
    const auto work = [&] {
      const Activations<3> rows(array, {num_rows, 1, width});
      if (group.place == 0) {
        ops().send({.pair = &group, .x = rows}, cuda.context());
      } else {
        ops().receive({.pair = &group, .y = rows}, cuda.context());
      }
    };
    test::run_and_replay(cuda, ranks, work, kReplays);
    EXPECT_TRUE(cuda.download(array, count()) == x);
    ranks.meet();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, CollectivesOnGpu, testing::ValuesIn(all_cases()));

/// Many exchanges of changing kinds and sizes one after the other, each with a result of its own.
TEST(CollectivesSequence, ManyInOneGraph) {
  BALEEN_NEEDS_GPUS(1);
  constexpr std::int64_t kCalls = 40, kWidth = 1024, kMaxRows = 90;
  const std::int64_t num_ranks = std::max(2, test::num_gpus());
  std::mt19937 random(9);
  std::vector<std::int64_t> rows;
  for (int i = 0; i < kCalls; ++i) rows.push_back(1 + static_cast<std::int64_t>(random() % kMaxRows));
  Arrays x(num_ranks, kMaxRows * kWidth, 13);
  std::vector<float> sum(x[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = x[0][i];
    for (std::int64_t r = 1; r < num_ranks; ++r) sum[i] += x[r][i];
    sum[i] = round_bf16(sum[i]);
  }
  GpuRanks ranks(num_ranks);
  ranks.run([&](TestCuda& cuda, const RankGroup& group) {
    float* device_x = cuda.upload(x[group.place]);
    std::vector<Bf16Bits*> y;
    for (const std::int64_t count : rows) y.push_back(cuda.allocate<Bf16Bits>(count * kWidth));
    ranks.meet();
    const auto work = [&] {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        all_reduce({.group = &group,
                    .x = Activations<2>(device_x, {rows[i], kWidth}),
                    .y = View<Bf16Bits, 2>(y[i], {rows[i], kWidth})},
                   cuda.context());
      }
    };
    test::run_and_replay(cuda, ranks, work, 20);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float> result = cuda.download_bf16(y[i], rows[i] * kWidth);
      EXPECT_TRUE(std::equal(result.begin(), result.end(), sum.begin())) << "call " << i;
    }
    ranks.meet();
  });
}

TEST(CollectivesFaults, ARankThatDoesNotComeIsNamed) {
  BALEEN_NEEDS_GPUS(1);
  for (const std::int64_t rows : {1, 300}) {
    GpuRanks ranks(2, std::chrono::milliseconds(200));
    ranks.run([&](TestCuda& cuda, const RankGroup& group) {
      if (group.place == 1) return;
      float* x = cuda.upload(random_values(rows * 1024, 1));
      auto* y = cuda.allocate<Bf16Bits>(rows * 1024);
      for (int i = 0; i < 3; ++i) {  // the later ones do not wait
        all_reduce(
            {.group = &group, .x = Activations<2>(x, {rows, 1024}), .y = View<Bf16Bits, 2>(y, {rows, 1024})},
            cuda.context());
      }
      cuda.synchronise();
      try {
        cuda.context().peers->check();
        ADD_FAILURE() << "nothing was reported";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("rank 0 waited 200 ms for rank 1"), std::string::npos)
            << error.what();
      }
    });
  }
}

TEST(CollectivesFaults, ARankThatDoesNotComeByNccl) {
  BALEEN_NEEDS_GPUS(2);
  if (const std::string why = test::why_not_nccl_ranks(2); !why.empty()) GTEST_SKIP() << why;
  GpuRanks ranks(2, std::make_shared<const test::NcclRanks>(test::gpus_of_ranks(2), std::chrono::seconds(3)));
  ranks.run([&](TestCuda& cuda, const RankGroup& group) {
    if (group.place == 0) {
      constexpr std::int64_t kRows = 3, kWidth = 1024;
      float* x = cuda.upload(random_values(kRows * kWidth, 1));
      auto* y = cuda.allocate<Bf16Bits>(kRows * kWidth);
      const AllReduceArgs args{.group = &group,
                               .x = Activations<2>(x, {kRows, kWidth}),
                               .y = View<Bf16Bits, 2>(y, {kRows, kWidth})};
      nccl_all_reduce(args, cuda.context());
      cuda.synchronise();  // ends when the wait is given up
      const auto sentence = [](const std::function<void()>& work) -> std::string {
        try {
          work();
        } catch (const Error& error) {
          return error.what();
        }
        return "";
      };
      constexpr const char* kWaited = "rank 0 waited 3000 ms for other ranks in an exchange by NCCL";
      EXPECT_NE(sentence([&] { cuda.context().peers->check(); }).find(kWaited), std::string::npos);
      EXPECT_NE(sentence([&] { nccl_all_reduce(args, cuda.context()); }).find(kWaited), std::string::npos);
    }
    ranks.meet();
  });
}

TEST(CollectivesFaults, RanksOnOneGpuAreRefusedByNccl) {
  BALEEN_NEEDS_GPUS(1);
  if (const std::string& why = why_not_nccl_library(); !why.empty()) GTEST_SKIP() << why;
  LocalExchange exchange{std::chrono::seconds(5)};
  std::vector<std::string> sentences(2);
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      LocalCommunicator host(exchange);
      try {
        const NcclRank nccl(0, rank, 2, host, std::chrono::seconds(5));
      } catch (const Error& error) {
        sentences[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  threads.clear();
  for (const std::string& sentence : sentences)
    EXPECT_NE(sentence.find("ranks 0 and 1 are on one GPU"), std::string::npos) << sentence;
}

TEST(CollectivesFaults, WhatCannotBeIsRefused) {
  BALEEN_NEEDS_GPUS(1);
  const std::vector<int> too_many(kMaxPeers + 1, 0);
  EXPECT_THROW(PeerMemory(too_many, std::chrono::seconds(1)), Error);
  TestCuda cuda(1 << 20);
  const RankGroup group = RankGroup::strided(0, 1, 2, 0);
  float* x = cuda.allocate<float>(8);
  EXPECT_THROW(
      all_gather({.group = &group, .x = ConstActivations<2>(x, {1, 4}), .rows = {}, .y = {x, {1, 8}}},
                 cuda.context()),
      Error);
  EXPECT_THROW(
      nccl_all_gather({.group = &group, .x = ConstActivations<2>(x, {1, 4}), .rows = {}, .y = {x, {1, 8}}},
                      cuda.context()),
      Error);
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
