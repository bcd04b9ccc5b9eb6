// Which transport serves which plan, and the sentence for each that does not.
#include "model/expert_transport.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "device/device_choice.h"
#include "model/parallel_plan.h"
#include "model/presets.h"
#include "model/rank_layout.h"

namespace baleen {
namespace {

const DeviceTraits kCpu = device_traits({}, 1), kGpu = device_traits(planned_gpu(), 1);

const ModelConfig& tiny() {
  static const ModelConfig config = preset_config("tiny-flash");
  return config;
}

std::string chosen(const ParallelPlan& plan, const DeviceTraits& device) {
  return std::string(expert_transport(resolved(plan, tiny()), device).name);
}

/// The reason for which `transport` refuses the plan; "" where it does not.
std::string refusal(ExpertTransport transport, const ParallelPlan& plan) {
  const auto reason = why_not(traits_of(transport), resolved(plan, tiny()));
  return reason ? std::string(*reason) : "";
}

TEST(ExpertTransport, AreTriedInThisOrder) {
  std::vector<std::string_view> names;
  for (const ExpertTransportTraits& one : expert_transports()) names.push_back(one.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"none", "all-reduce", "all-to-all", "fused", "peer-memory",
                                                  "all-gather", "reduce-scatter", "nccl"}));
}

TEST(ExpertTransport, ThoseThatKeepBitsAddNoSums) {
  for (const ExpertTransportTraits& one : expert_transports()) {
    const bool sums = one.name == "all-reduce" || one.name == "reduce-scatter";
    EXPECT_EQ(one.keeps_bits(), !sums) << one.name;
    EXPECT_EQ(one.activations.empty(), !one.way) << one.name << ": what is sent has a format";
  }
}

TEST(ExpertTransport, APlanTakesTheFirstThatServesIt) {
  const auto expect = [](const ParallelPlan& plan, const char* on_cpu, const char* on_gpu) {
    EXPECT_EQ(chosen(plan, kCpu), on_cpu) << to_text(resolved(plan, tiny()));
    EXPECT_EQ(chosen(plan, kGpu), on_gpu) << to_text(resolved(plan, tiny()));
  };
  expect({}, "none", "none");
  expect({.pp = 3}, "none", "none");
  expect({.tp = 2}, "all-reduce", "all-reduce");
  expect({.tp = 2, .ep = 1, .moe_tp = 2}, "all-reduce", "all-reduce");
  expect({.dp = 2}, "all-to-all", "fused");
  expect({.dp = 4}, "all-to-all", "peer-memory");  // not measured
  expect({.tp = 2, .dp = 2, .pp = 2}, "all-to-all", "peer-memory");
  expect({.tp = 2, .sequence_parallel = true}, "all-to-all", "fused");
  expect({.tp = 2, .redundant_experts = 2}, "all-to-all", "fused");
  expect({.tp = 2, .expert_placement = ExpertOrder::kRoundRobin}, "all-to-all", "fused");
  expect({.tp = 2, .maps_by_layer = true}, "all-to-all", "fused");
}

/// The device decides who moves rows, never what moves.
TEST(ExpertTransport, BothDevicesMoveTheSame) {
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t dp : {1, 2}) {
      for (const bool sequence_parallel : {false, true}) {
        const ParallelPlan plan =
            resolved({.tp = tp, .dp = dp, .sequence_parallel = sequence_parallel}, tiny());
        const ExpertTransportTraits& cpu = expert_transport(plan, kCpu);
        const ExpertTransportTraits& gpu = expert_transport(plan, kGpu);
        EXPECT_EQ(cpu.way, gpu.way);
        EXPECT_EQ(cpu.adds_sums, gpu.adds_sums);
        EXPECT_EQ(&expert_transport(plan), &cpu);
      }
    }
  }
}

TEST(ExpertTransport, EveryRefusalOfAPlanHasItsReason) {
  constexpr const char* kGroups =
      "ranks have tokens of their own: there is more than one data-parallel group";
  constexpr const char* kRows = "ranks have tokens of their own: sequence parallelism shares them out";
  constexpr const char* kPlaced =
      "sums in the order of ranks would depend on where experts lie, which is not linear here";
  constexpr const char* kOneRank = "every rank has all experts of its stage: nothing has to move";
  EXPECT_EQ(refusal(ExpertTransport::kNone, {.dp = 2}), "the experts lie on several ranks");
  EXPECT_EQ(refusal(ExpertTransport::kNone, {.pp = 2}), "");
  EXPECT_EQ(refusal(ExpertTransport::kAllReduce, {.dp = 2}), kGroups);
  EXPECT_EQ(refusal(ExpertTransport::kAllReduce, {.tp = 2, .sequence_parallel = true}), kRows);
  EXPECT_EQ(refusal(ExpertTransport::kAllReduce, {.tp = 2, .redundant_experts = 2}), kPlaced);
  EXPECT_EQ(refusal(ExpertTransport::kAllReduce, {.tp = 2}), "");
  EXPECT_EQ(refusal(ExpertTransport::kReduceScatter, {.dp = 2, .maps_by_layer = true}), kPlaced);
  EXPECT_EQ(refusal(ExpertTransport::kReduceScatter, {.dp = 2}), "");
  for (const ExpertTransport rows_move :
       {ExpertTransport::kAllToAll, ExpertTransport::kPeerMemory, ExpertTransport::kFused,
        ExpertTransport::kAllGather, ExpertTransport::kNccl}) {
    EXPECT_EQ(refusal(rows_move, {.pp = 2}), kOneRank);
    for (const ParallelPlan& plan : {ParallelPlan{.dp = 2}, ParallelPlan{.tp = 2},
                                     ParallelPlan{.dp = 2, .redundant_experts = 2, .maps_by_layer = true}})
      EXPECT_EQ(refusal(rows_move, plan), "");
  }
  EXPECT_EQ(refusal(ExpertTransport::kFused, {.dp = 2, .ep = 1, .moe_tp = 2}),
            "takes whole experts; these are split over ranks");
  EXPECT_EQ(chosen({.dp = 2, .ep = 1, .moe_tp = 2}, kGpu), "peer-memory");
}

TEST(ExpertTransport, EveryRefusalOfADeviceHasItsReason) {
  const auto reason = [](ExpertTransport transport, const DeviceTraits& device) {
    return std::string(why_not(traits_of(transport), device).value_or(""));
  };
  for (const ExpertTransport both : {ExpertTransport::kNone, ExpertTransport::kAllReduce}) {
    EXPECT_EQ(reason(both, kCpu), "");
    EXPECT_EQ(reason(both, kGpu), "");
  }
  EXPECT_EQ(reason(ExpertTransport::kAllToAll, kCpu), "");
  EXPECT_NE(reason(ExpertTransport::kAllToAll, kGpu).find("GPUs have peer-memory"), std::string::npos);
  EXPECT_NE(reason(ExpertTransport::kPeerMemory, kCpu).find("CPU ranks have all-to-all"), std::string::npos);
  EXPECT_EQ(reason(ExpertTransport::kPeerMemory, kGpu), "");
  EXPECT_NE(reason(ExpertTransport::kFused, kCpu).find("CPU ranks have all-to-all"), std::string::npos);
  EXPECT_EQ(reason(ExpertTransport::kFused, kGpu), "");
  for (const ExpertTransport gathers : {ExpertTransport::kAllGather, ExpertTransport::kReduceScatter}) {
    EXPECT_EQ(reason(gathers, kCpu), "");
    EXPECT_NE(reason(gathers, kGpu).find("has no kernels on GPUs so far"), std::string::npos);
  }
  EXPECT_NE(reason(ExpertTransport::kNccl, kCpu).find("library for GPUs"), std::string::npos);
  EXPECT_EQ(reason(ExpertTransport::kNccl, kGpu), "");
}

/// Named, it is taken or refused: nothing else takes its place.
TEST(ExpertTransport, ANameIsTakenOrRefused) {
  const auto named = [](ParallelPlan plan, ExpertTransport transport) {
    plan.expert_transport = transport;
    return resolved(plan, tiny());
  };
  const ParallelPlan gathers = named({.dp = 2}, ExpertTransport::kAllGather);
  EXPECT_EQ(expert_transport(gathers, kCpu).name, "all-gather");
  EXPECT_TRUE(violations(gathers, tiny()).empty());
  EXPECT_FALSE(transport_violation(gathers, kCpu));
  EXPECT_EQ(transport_violation(gathers, kGpu).value_or(""),
            "‹expert transport› all-gather: has no kernels on GPUs so far: theirs send each assignment to a "
            "place of its own; this plan can have fused, peer-memory, nccl");
  EXPECT_EQ(to_text(gathers), "2 devices: tp 1, dp 2, ep 2, experts by all-gather");

  const ParallelPlan adds = named({.dp = 2}, ExpertTransport::kAllReduce);
  EXPECT_EQ(violations(adds, tiny()),
            std::vector<std::string>{"‹expert transport› all-reduce: ranks have tokens of their own: there "
                                     "is more than one data-parallel group; this plan can have all-to-all, "
                                     "fused, peer-memory, all-gather, reduce-scatter, nccl"});
  EXPECT_TRUE(transport_violation(adds, kCpu).value_or("").starts_with("‹expert transport› all-reduce:"));
  EXPECT_THROW(check_runnable(adds, tiny()), Error);

  const ParallelPlan by_nccl = named({.dp = 2}, ExpertTransport::kNccl);
  EXPECT_TRUE(violations(by_nccl, tiny()).empty());
  EXPECT_FALSE(transport_violation(by_nccl, kGpu));
  EXPECT_EQ(expert_transport(by_nccl, kGpu).name, "nccl");
  EXPECT_TRUE(transport_violation(by_nccl, kCpu).value_or("").starts_with("‹expert transport› nccl: NCCL "));
  EXPECT_EQ(transport_violation(named({}, ExpertTransport::kAllToAll)).value_or(""),
            "‹expert transport› all-to-all: every rank has all experts of its stage: nothing has to move; "
            "this plan can have none");
  EXPECT_FALSE(transport_violation(named({}, ExpertTransport::kNone), kGpu));
}

TEST(ExpertTransport, ALayoutHasRoomForWhatItsTransportBrings) {
  const auto most = [](ParallelPlan plan, ExpertTransport transport) {
    plan.expert_transport = transport;
    const ParallelPlan full = resolved(plan, tiny());
    return RankLayout(tiny(), full, even_stage(tiny(), 1, 0)).most_arriving_rows(5, 3);
  };
  EXPECT_EQ(most({.tp = 2}, ExpertTransport::kAutomatic), 0) << "sums of tokens that are there";
  EXPECT_EQ(most({.dp = 4}, ExpertTransport::kAutomatic), 4 * 5 * 3);
  EXPECT_EQ(most({.dp = 4}, ExpertTransport::kAllGather), 4 * 5 * 3);
  EXPECT_EQ(most({.dp = 4}, ExpertTransport::kNccl), 4 * 5 * 3);
  EXPECT_EQ(most({.tp = 2, .dp = 2}, ExpertTransport::kAllGather), 4 * 3 * 3) << "3 of 5 rows from each";
  EXPECT_EQ(most({.tp = 2, .dp = 2}, ExpertTransport::kReduceScatter), 4 * 3) << "tokens, not assignments";
}

}  // namespace
}  // namespace baleen
