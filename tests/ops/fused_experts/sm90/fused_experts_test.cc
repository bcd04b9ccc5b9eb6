// Experts over GPUs at once: the bits of one rank, whatever comes from whom, in graphs and many times over.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/support/exchanged_experts.h"
#include "tests/support/expert_problem.h"
#include "tests/support/gpu_ranks.h"

namespace baleen::sm90 {
namespace {

using test::GpuRanks;
using test::RankCall;

constexpr std::int64_t kScratch = std::int64_t{192} << 20;

test::ExchangedTokens view_of(const Tokens& tokens) {
  return {tokens.num_rows, tokens.selected, tokens.x, tokens.ids, tokens.weights};
}

/// `layer` has the slots of all ranks, one rank's after the other's.
test::ExchangedLayer share_of(const Layer& layer, const RankGroup& group, const ExpertMap* map = nullptr) {
  const std::size_t slots = layer.device().size() / static_cast<std::size_t>(group.size());
  return {.slots = std::span(layer.device()).subspan(static_cast<std::size_t>(group.place) * slots, slots),
          .shared = &layer.device_shared(),
          .num_experts = layer.geometry().num_experts,
          .map = map};
}

/// Some rows have no expert at all, some a slot less.
Tokens with_padding(Tokens tokens) {
  for (std::int64_t row = 0; row < tokens.num_rows; ++row) {
    for (std::int64_t i = 0; i < tokens.selected; ++i) {
      if (row % 5 == 3 || i == row % 7) tokens.ids[static_cast<std::size_t>(row * tokens.selected + i)] = -1;
    }
  }
  return tokens;
}

/// Of one rank that has all experts.
std::vector<float> of_one_rank(TestCuda& cuda, const Layer& all, const Tokens& tokens) {
  return tokens.num_rows == 0 ? std::vector<float>() : run(cuda, all, tokens);
}

/// Each rank's tokens by both ways, queued and replayed, against one rank.
void expect_bits_of_one_rank(const Geometry& geometry, const std::vector<Tokens>& tokens, std::int64_t most,
                             bool mapped) {
  const std::int64_t num_ranks = std::ssize(tokens);
  const std::int64_t copies = mapped ? geometry.num_experts / 2 : 0;
  const ExpertMap map = ExpertMap::placed(mapped ? ExpertOrder::kRoundRobin : ExpertOrder::kLinear,
                                          geometry.num_experts, copies, num_ranks);
  std::vector<std::int32_t> slots;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    const auto own = map.local_to_logical(rank);
    slots.insert(slots.end(), own.begin(), own.end());
  }
  GpuRanks ranks(num_ranks, std::chrono::seconds(20), kScratch);
  ranks.run([&](TestCuda& cuda, const RankGroup& group) {
    const Tokens& own = tokens[static_cast<std::size_t>(group.place)];
    const Layer all(cuda, geometry), layer(cuda, geometry, slots);
    const std::vector<float> want = of_one_rank(cuda, all, own);
    RankCall call(cuda, group, share_of(layer, group, mapped ? &map : nullptr), view_of(own), most);
    EXPECT_EQ(call.why_not_fused().value_or(""), "");
    const Bf16Bits* const one_by_one = call.renew_out();
    cuda.synchronise();
    ranks.meet();
    call.one_by_one();
    cuda.synchronise();
    EXPECT_SAME_BITS(call.download(one_by_one), want);
    const Bf16Bits* const queued = call.renew_out();
    cuda.synchronise();
    ranks.meet();
    call.fused();
    cuda.synchronise();
    EXPECT_SAME_BITS(call.download(queued), want);
    EXPECT_EQ(cuda.context().scratch.mark(), 0);
    const Bf16Bits* const replayed = call.renew_out();
    cuda.synchronise();
    ranks.meet();
    test::run_and_replay(
        cuda, ranks, [&] { call.fused(); }, 3);
    EXPECT_SAME_BITS(call.download(replayed), want);
    ranks.rank(group.place).check();
    ranks.meet();
  });
}

TEST(FusedExpertsSm90, BitsOfOneRank) {
  BALEEN_NEEDS_GPUS(2);
  for (const WeightFormat format : {WeightFormat::kFp4, WeightFormat::kFp8}) {
    const Geometry geometry{.width = 640, .inner = 384, .num_experts = 16, .routed = format};
    for (const auto& rows : std::vector<std::vector<std::int64_t>>{{1, 1},
                                                                   {1, 0},
                                                                   {0, 3},
                                                                   {0, 0},
                                                                   {5, 2},
                                                                   {16, 16},
                                                                   {33, 7},
                                                                   {64, 50},
                                                                   {128, 128},
                                                                   {256, 3},
                                                                   {0, 256}}) {
      for (const bool mapped : {false, true}) {
        SCOPED_TRACE(fmt::format("{} weights, {} and {} tokens{}", weight_format_name(format), rows[0],
                                 rows[1], mapped ? ", mapped" : ""));
        const std::int64_t most = std::max<std::int64_t>({rows[0], rows[1], 1});
        std::vector<Tokens> tokens;
        for (std::size_t rank = 0; rank < 2; ++rank)
          tokens.push_back(
              with_padding(Tokens(geometry, rows[rank], 6, static_cast<std::uint32_t>(7 + rank))));
        expect_bits_of_one_rank(geometry, tokens, most, mapped);
      }
    }
  }
}

/// Also places that no rank has a token for, one block of 128 in either direction, other numbers of slots.
TEST(FusedExpertsSm90, GeometriesOfSmallModels) {
  BALEEN_NEEDS_GPUS(2);
  for (const Geometry& geometry : {Geometry{256, 128, 8}, Geometry{128, 128, 4}, Geometry{384, 1152, 6}}) {
    for (const std::int64_t chosen : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} wide, {} inside, {} chosen", geometry.width, geometry.inner, chosen));
      expect_bits_of_one_rank(geometry, {Tokens(geometry, 7, chosen, 3), Tokens(geometry, 2, chosen, 4)}, 8,
                              false);
    }
  }
}

/// Several tiles of one expert on one rank, the other rank without any work; nothing for anybody.
TEST(FusedExpertsSm90, AllTokensHaveTheSameExperts) {
  BALEEN_NEEDS_GPUS(2);
  const Geometry geometry{.width = 256, .inner = 256, .num_experts = 8};
  for (const std::vector<std::int32_t>& chosen :
       {std::vector<std::int32_t>{5, 6}, {0, 1}, {7, 0}, {-1, -1}, {-1, 4}}) {
    for (const std::int64_t count : {1, 30, 200}) {
      SCOPED_TRACE(fmt::format("experts {} and {}, {} tokens", chosen[0], chosen[1], count));
      std::vector<Tokens> tokens;
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        Tokens& own = tokens.emplace_back(geometry, count, 2, rank + 1);
        for (std::size_t i = 0; i < own.ids.size(); ++i) own.ids[i] = chosen[i % 2];
      }
      expect_bits_of_one_rank(geometry, tokens, count, false);
    }
  }
}

/// More ranks than GPUs: one operation after the other.
TEST(FusedExpertsSm90, RanksThatShareAGpu) {
  BALEEN_NEEDS_GPUS(1);
  const Geometry geometry{.width = 256, .inner = 256, .num_experts = 8};
  const std::int64_t num_ranks = 2 * test::num_gpus();
  if (geometry.num_experts % num_ranks != 0) GTEST_SKIP() << "experts that these GPUs cannot share";
  std::vector<Tokens> tokens;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank)
    tokens.emplace_back(geometry, 3 + rank, 3, static_cast<std::uint32_t>(rank));
  expect_bits_of_one_rank(geometry, tokens, 3 + num_ranks, false);
}

/// Four ranks, and eight, of few tokens, on as many GPUs as there are: blocks of all of them fit a GPU.
TEST(FusedExpertsSm90, MoreThanTwoRanks) {
  BALEEN_NEEDS_GPUS(2);
  constexpr int kSms = 16, kReplays = 5;
  for (const std::int64_t num_ranks : {4, 8}) {
    const Geometry geometry{.width = 512, .inner = 384, .num_experts = 24};
    const ExpertMap map = ExpertMap::placed(ExpertOrder::kRoundRobin, geometry.num_experts, 8, num_ranks);
    std::vector<std::int32_t> slots(map.physical_to_logical().begin(), map.physical_to_logical().end());
    GpuRanks ranks(num_ranks, std::chrono::seconds(20), kScratch);
    ranks.run([&, num_ranks = num_ranks](TestCuda& cuda, const RankGroup& group) {
      const Layer all(cuda, geometry), mapped(cuda, geometry, slots);
      for (const bool linear : {true, false}) {
        const std::int64_t most = num_ranks == 4 ? 8 : 3;
        const Tokens own = with_padding(
            Tokens(geometry, (most + group.place) % (most + 1), 6, static_cast<std::uint32_t>(group.place)));
        const std::vector<float> want = of_one_rank(cuda, all, own);
        RankCall call(cuda, group, linear ? share_of(all, group) : share_of(mapped, group, &map),
                      view_of(own), most);
        for (int i = 0; i < kReplays; ++i) {
          const Bf16Bits* const got = call.renew_out();
          cuda.synchronise();
          ranks.meet();
          call.at_once(kSms);
          cuda.synchronise();
          EXPECT_SAME_BITS(call.download(got), want);
        }
        ranks.rank(group.place).check();
        ranks.meet();
      }
    });
  }
}

/// Other tokens with each call, an output of its own for each, in graphs; then ranks that do not do the same.
TEST(FusedExpertsSm90, ManyCallsGiveTheSameBits) {
  BALEEN_NEEDS_GPUS(2);
  constexpr std::int64_t kSets = 3, kCalls = 12;
  constexpr int kReplays = 40;
  const Geometry geometry{.width = 4096, .inner = 2048, .num_experts = 8};
  GpuRanks ranks(2, std::chrono::seconds(20), kScratch);
  ranks.run([&](TestCuda& cuda, const RankGroup& group) {
    const Layer layer(cuda, geometry);
    for (const std::int64_t most : {2, 16, 48, 128}) {
      std::vector<std::unique_ptr<RankCall>> calls;
      std::vector<std::vector<float>> want;
      for (std::int64_t set = 0; set < kSets; ++set) {
        const Tokens tokens(geometry, std::max<std::int64_t>(most - set, 0), 6,
                            static_cast<std::uint32_t>(11 * set + group.place));
        want.push_back(of_one_rank(cuda, layer, tokens));
        calls.push_back(
            std::make_unique<RankCall>(cuda, group, share_of(layer, group), view_of(tokens), most));
      }
      for (const bool mixed : {false, true}) {
        std::vector<const Bf16Bits*> outputs;
        const auto queue = [&] {
          for (std::int64_t i = 0; i < kCalls; ++i) {
            RankCall& call = *calls[static_cast<std::size_t>(i % kSets)];
            if (mixed && (i + group.place) % 2 == 0) {
              call.one_by_one();
            } else {
              call.fused();
            }
          }
        };
        // All calls of a set write to one array, which is poisoned between replays.
        for (std::int64_t set = 0; set < kSets; ++set)
          outputs.push_back(calls[static_cast<std::size_t>(set)]->renew_out());
        cuda.synchronise();
        ranks.meet();
        const CudaGraph graph(cuda.context().stream, queue);
        graph.upload(cuda.context().stream);
        int num_wrong = 0;
        for (int replay = 0; replay < kReplays; ++replay) {
          for (std::size_t set = 0; set < kSets; ++set)
            check_cuda(cudaMemsetAsync(const_cast<Bf16Bits*>(outputs[set]), 0xFF,
                                       want[set].size() * sizeof(Bf16Bits), cuda.context().stream),
                       "poisoning");
          cuda.synchronise();
          ranks.meet();
          graph.launch(cuda.context().stream);
          cuda.synchronise();
          for (std::size_t set = 0; set < kSets; ++set) {
            const std::vector<float> got = calls[set]->download(outputs[set]);
            const std::string difference = test::bit_difference(got, want[set]);
            if (!difference.empty() && num_wrong++ == 0) ADD_FAILURE() << difference;
          }
        }
        EXPECT_EQ(num_wrong, 0) << most << " tokens a rank at most, " << (mixed ? "mixed" : "fused");
        ranks.rank(group.place).check();
        ranks.meet();
      }
    }
  });
}

/// The kernels of a rank whose peer does not come end, and the host learns whom they waited for.
TEST(FusedExpertsSm90, ALostRankIsNamed) {
  BALEEN_NEEDS_GPUS(2);
  const Geometry geometry{.width = 256, .inner = 256, .num_experts = 8};
  GpuRanks ranks(2, std::chrono::milliseconds(300), kScratch);
  ranks.run([&](TestCuda& cuda, const RankGroup& group) {
    const Layer layer(cuda, geometry);
    const Tokens tokens(geometry, 20, 3, 5);
    RankCall call(cuda, group, share_of(layer, group), view_of(tokens), 20);
    cuda.synchronise();
    ranks.meet();
    if (group.place == 0) {
      call.fused();
      cuda.synchronise();
      EXPECT_THROW(ranks.rank(0).check(), Error);
      call.fused();  // does not wait at all
      cuda.synchronise();
    }
    ranks.meet();
  });
}

}  // namespace
}  // namespace baleen::sm90
