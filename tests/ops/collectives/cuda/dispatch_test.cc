// Dispatch and combine between GPUs: every assignment comes to its place on its expert's rank and nothing
// else does, as FP8 and as BF16; outputs return in the order of the reference; queued and in graphs.

#include <gtest/gtest.h>

#include <random>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/dispatch/cuda/dispatch.h"
#include "ops/dispatch/cuda/nccl_dispatch.h"
#include "tests/support/gpu_ranks.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::GpuRanks;
using test::TestCuda;

constexpr std::int64_t kWidth = 384, kChosen = 6, kExperts = 48;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// One rank's tokens, on the host.
struct Tokens {
  std::int64_t rows;
  std::vector<float> x, weights, shared;
  std::vector<std::int32_t> ids;

  Tokens(std::int64_t num_rows, std::uint32_t seed) : rows(num_rows) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows * kWidth; ++i) {
      x.push_back(round_bf16(normal(random) * static_cast<float>(1 + i / kWidth % 9)));
      shared.push_back(round_bf16(normal(random)));
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<std::int32_t> experts(kExperts);
      for (std::int32_t e = 0; e < kExperts; ++e) experts[at(e)] = e;
      std::ranges::shuffle(experts, random);
      for (std::int64_t i = 0; i < kChosen; ++i) {
        ids.push_back(row % 5 == 3 ? -1 : i == row % 7 ? -1 : experts[at(i)]);  // padding rows and slots
        weights.push_back(normal(random));
      }
    }
  }
};

/// What an "expert" makes of a row: its own multiple, so that the order of sums shows.
float output_of(std::int32_t expert, float value) {
  return round_bf16(value * (1.0F + static_cast<float>(expert) * 0.37F));
}

struct Case {
  std::int64_t ranks;
  bool fp8;
  bool mapped;         ///< experts lie round-robin, a third of them twice; else linearly
  std::int64_t times;  ///< as many tokens: few are staged (fewer on a shared GPU), many written and read
  bool by_nccl;
};

class DispatchOnGpu : public test::WithNccl, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    BALEEN_NEEDS_GPUS(1);
    if (!GetParam().by_nccl) return;
    if (const std::string why = test::why_not_nccl_ranks(GetParam().ranks); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(DispatchOnGpu, RowsComeToTheirExpertsAndReturn) {
  const auto [num_ranks, fp8, mapped, times, by_nccl] = GetParam();
  if (kExperts % num_ranks != 0) GTEST_SKIP() << "experts that these GPUs cannot share";
  std::vector<Tokens> tokens;
  constexpr std::int64_t kRows[] = {3, 0, 1, 12};
  std::int64_t most = 0;
  for (std::int64_t r = 0; r < num_ranks; ++r) {
    tokens.emplace_back(times * (num_ranks == 2 && r == 1 ? 7 : kRows[r % 4]),
                        static_cast<std::uint32_t>(r + 1));
    most = std::max(most, tokens.back().rows);
  }
  const std::int64_t places = most * kChosen, room = num_ranks * places;
  const ExpertMap map = ExpertMap::placed(ExpertOrder::kRoundRobin, kExperts, kExperts / 3, num_ranks);
  GpuRanks ranks(num_ranks, by_nccl ? nccl() : nullptr);
  const auto run_dispatch = by_nccl ? nccl_dispatch : dispatch;
  const auto run_combine = by_nccl ? nccl_combine : combine;
  ranks.run([&, num_ranks = num_ranks, fp8 = fp8, mapped = mapped](TestCuda& cuda, const RankGroup& group) {
    cuda.context().most_rows = most;
    const Tokens& own = tokens[at(group.place)];
    const ExpertRanks placement{.stage = &group,
                                .ep = num_ranks,
                                .num_experts = kExperts,
                                .map = mapped ? &map : nullptr,
                                .table = mapped ? cuda.upload(map.table()) : nullptr};
    const std::int64_t stride = (room + 3) / 4 * 4;
    DispatchedRows received;
    const View<const std::int32_t, 2> ids(cuda.upload(own.ids), {own.rows, kChosen});
    const DispatchArgs sent{
        .placement = placement,
        .x = View<const Bf16Bits, 2>(cuda.upload_bf16(own.x), {own.rows, kWidth}),
        .sends_fp8 = fp8,
        .ids = ids,
        .weights = ConstActivations<2>(cuda.upload(own.weights), {own.rows, kChosen}),
        .arrived = View<Bf16Bits, 2>(cuda.allocate<Bf16Bits>(room * kWidth), {room, kWidth}),
        .arrived_fp8 = {cuda.allocate<std::uint8_t>(room * kWidth),
                        cuda.allocate<float>(kWidth / 128 * stride), stride},
        .arrived_ids = {cuda.allocate<std::int32_t>(room), {room, 1}},
        .arrived_weights = {cuda.allocate<float>(room), {room, 1}},
        .received = &received};
    auto* const y = cuda.allocate<Bf16Bits>(room * kWidth);
    auto* const out = cuda.allocate<Bf16Bits>(own.rows * kWidth);
    const auto* const shared = cuda.upload_bf16(own.shared);
    ranks.meet();
    test::run_and_replay(
        cuda, ranks, [&] { run_dispatch(sent, cuda.context()); }, 3);

    const auto arrived_ids = cuda.download(sent.arrived_ids.data(), room);
    const auto arrived_weights = cuda.download(sent.arrived_weights.data(), room);
    const auto rows = cuda.download_bf16(sent.arrived.bf16().data(), room * kWidth);
    const auto codes = cuda.download(sent.arrived_fp8.codes, room * kWidth);
    const auto scales = cuda.download(sent.arrived_fp8.scales, kWidth / 128 * stride);
    std::vector<float> outputs(at(room * kWidth), 1e30F);  // of rows without an expert, never read
    for (std::int64_t row = 0; row < room; ++row) {
      const Tokens& from = tokens[at(row / places)];
      const std::int64_t slot = row % places;
      const std::int32_t id = slot < from.rows * kChosen ? from.ids[at(slot)] : -1;
      const std::int32_t physical = mapped && id >= 0 ? map.slot_for(id, slot) : id;
      const bool mine = physical >= 0 && placement.place_of(physical) == group.place;
      ASSERT_EQ(arrived_ids[at(row)], mine ? physical : -1) << row;
      if (!mine) continue;
      EXPECT_EQ(arrived_weights[at(row)], from.weights[at(slot)]);
      const std::span<const float> x = std::span(from.x).subspan(at(slot / kChosen * kWidth), at(kWidth));
      for (std::int64_t i = 0; i < kWidth; ++i) outputs[at(row * kWidth + i)] = output_of(id, x[at(i)]);
      if (!fp8) {
        for (std::int64_t i = 0; i < kWidth; ++i) ASSERT_EQ(rows[at(row * kWidth + i)], x[at(i)]);
        continue;
      }
      for (std::int64_t block = 0; block < kWidth / 128; ++block) {
        std::vector<std::uint8_t> expected(128);
        const std::uint8_t scale = quantise_fp8_block(x.subspan(at(128 * block), 128), expected);
        ASSERT_EQ(scales[at(block * stride + row)], e8m0_to_float(scale));
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                               codes.begin() + static_cast<std::ptrdiff_t>(row * kWidth + 128 * block)));
      }
    }
    std::vector<Bf16Bits> output_bits;
    for (const float value : outputs) output_bits.push_back(float_to_bf16(value));
    cuda.memory().upload(reinterpret_cast<std::byte*>(y), std::as_bytes(std::span(output_bits)));
    ranks.meet();
    const auto add_up = [&] {
      run_combine({.placement = placement,
                   .y = View<const Bf16Bits, 2>(y, {received.num_rows, kWidth}),
                   .received = &received,
                   .ids = ids,
                   .shared = View<const Bf16Bits, 2>(shared, {own.rows, kWidth}),
                   .out = View<Bf16Bits, 2>(out, {own.rows, kWidth})},
                  cuda.context());
    };
    const auto expect_sums = [&] {
      const std::vector<float> sums = cuda.download_bf16(out, own.rows * kWidth);
      for (std::int64_t row = 0; row < own.rows; ++row) {
        std::vector<std::int32_t> experts(own.ids.begin() + row * kChosen,
                                          own.ids.begin() + (row + 1) * kChosen);
        std::ranges::sort(experts);
        for (std::int64_t i = 0; i < kWidth; ++i) {
          float sum = 0.0F;
          for (const std::int32_t expert : experts)
            if (expert >= 0) sum += output_of(expert, own.x[at(row * kWidth + i)]);
          sum += own.shared[at(row * kWidth + i)];
          ASSERT_EQ(sums[at(row * kWidth + i)], round_bf16(sum)) << row << " " << i;
        }
      }
    };
    // Queued, NCCL may return other rows than in a graph.
    add_up();
    cuda.synchronise();
    expect_sums();
    ranks.meet();
    test::run_and_replay(cuda, ranks, add_up, 3);
    expect_sums();
    ranks.meet();
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::int64_t ranks : {2, 4}) {
    for (const bool fp8 : {true, false}) {
      for (const bool mapped : {false, true}) {
        for (const std::int64_t times : {1, 11, 60}) cases.push_back({ranks, fp8, mapped, times, false});
        // The last in pieces of the buffer.
        for (const std::int64_t times : {1, 11, 1200})
          if (ranks == 2) cases.push_back({ranks, fp8, mapped, times, true});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Formats, DispatchOnGpu, testing::ValuesIn(all_cases()));

}  // namespace
}  // namespace baleen::BALEEN_ARCH
