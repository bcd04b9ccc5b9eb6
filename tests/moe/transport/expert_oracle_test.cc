// Every pair of transport and back-end with what became of it, for plans on both devices.
#include "moe/transport/expert_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "device/device_choice.h"
#include "model/presets.h"

namespace baleen {
namespace {

const DeviceTraits kProcessor = device_traits({}, 1), kOneGpu = device_traits(planned_gpu(), 1);

ExpertRequest request(const ParallelPlan& plan, const DeviceTraits& device, std::int64_t step_rows = 4) {
  const ModelConfig config = preset_config("flash");
  return {.config = config,
          .weights = WeightFormat::kFp4,
          .plan = resolved(plan, config),
          .device = device,
          .step_rows = step_rows};
}

/// "all-to-all simd"; "" where none is chosen.
std::string chosen_pair(const ExpertRequest& request) {
  std::string pair;
  for (const ExpertCandidate& candidate : expert_candidates(request)) {
    if (candidate.verdict.outcome != VariantOutcome::kChosen) continue;
    EXPECT_EQ(pair, "") << "one at most";
    pair = std::string(candidate.transport->name) + " " + std::string(candidate.verdict.variant);
  }
  return pair;
}

const ExpertCandidate& candidate(const std::vector<ExpertCandidate>& all, std::string_view transport,
                                 std::string_view backend) {
  const auto found = std::ranges::find_if(all, [&](const ExpertCandidate& one) {
    return one.transport->name == transport && one.verdict.variant == backend;
  });
  if (found == all.end()) fail("no candidate {} {}", transport, backend);
  return *found;
}

TEST(ExpertOracle, ListsEveryPairOfTheCpuInOrder) {
  const std::vector<ExpertCandidate> all = expert_candidates(request({.dp = 4}, kProcessor));
  std::vector<std::string> pairs;
  for (const ExpertCandidate& one : all)
    pairs.push_back(std::string(one.transport->name) + " " + std::string(one.verdict.variant));
  std::vector<std::string> want;
  for (const ExpertTransportTraits& transport : expert_transports()) {
    for (const char* backend : {"simd", "int8", "stated", "reference"})
      want.push_back(std::string(transport.name) + " " + backend);
  }
  EXPECT_EQ(pairs, want);
  EXPECT_EQ(chosen_pair(request({.dp = 4}, kProcessor)), "all-to-all simd");
  const ExpertCandidate& sums = candidate(all, "all-reduce", "simd");
  EXPECT_EQ(sums.verdict.outcome, VariantOutcome::kRefused);
  EXPECT_TRUE(sums.refused_transport);
  EXPECT_EQ(sums.verdict.reason,
            "ranks have tokens of their own: there is more than one data-parallel group");
  EXPECT_EQ(candidate(all, "peer-memory", "reference").verdict.reason,
            "is for GPUs of one host; CPU ranks have all-to-all for it");
  EXPECT_EQ(candidate(all, "all-gather", "simd").verdict.outcome, VariantOutcome::kNotNeeded);
  EXPECT_EQ(candidate(all, "all-to-all", "reference").verdict.outcome, VariantOutcome::kNotNeeded);
}

TEST(ExpertOracle, ForcedNamesExcludeTheOthers) {
  ExpertRequest asked = request({.dp = 4}, kProcessor);
  asked.plan.expert_transport = ExpertTransport::kAllGather;
  asked.forced_variants = {{"experts", "reference"}};
  EXPECT_EQ(chosen_pair(asked), "all-gather reference");
  const std::vector<ExpertCandidate> all = expert_candidates(asked);
  EXPECT_EQ(candidate(all, "all-to-all", "reference").verdict.outcome, VariantOutcome::kExcluded);
  EXPECT_EQ(candidate(all, "all-gather", "simd").verdict.outcome, VariantOutcome::kExcluded);
  asked.forced_variants = {{"experts", "sm90/few_tokens"}};
  EXPECT_THROW(static_cast<void>(expert_candidates(asked)), Error) << "the CPU has no such back-end";
}

TEST(ExpertOracle, ANameThatIsRefusedLeavesNothingChosen) {
  ExpertRequest asked = request({.dp = 4}, kOneGpu);
  asked.plan.expert_transport = ExpertTransport::kAllGather;
  EXPECT_EQ(chosen_pair(asked), "");
}

/// Back-ends of GPUs say what they take of each transport, on a machine without one.
TEST(ExpertOracle, BackendsOfGpusAnswerForWhatTheyAreBrought) {
  const ExpertRequest one_token = request({.tp = 2}, kOneGpu, 1);
  const std::vector<ExpertCandidate> all = expert_candidates(one_token);
  if (all.front().verdict.variant.empty()) {
    EXPECT_EQ(chosen_pair(one_token), "all-reduce ") << "no module";
    return;
  }
  EXPECT_EQ(chosen_pair(one_token), "all-reduce sm90/four_tokens");
  EXPECT_EQ(candidate(all, "all-reduce", "sm90/bf16").verdict.reason, "takes BF16 weights; these are codes");
  EXPECT_EQ(chosen_pair(request({.tp = 2}, kOneGpu, 32)), "all-reduce sm90/few_tokens");
  EXPECT_EQ(chosen_pair(request({.tp = 2}, kOneGpu, 512)), "all-reduce sm90/many_tokens");
  // A place for each of 2 x 1 x 6 assignments.
  ExpertRequest one_by_one = request({.dp = 2}, kOneGpu, 1);
  EXPECT_EQ(chosen_pair(one_by_one), "fused sm90/fused_few_tokens");
  EXPECT_EQ(chosen_pair(request({.dp = 2}, kOneGpu, 256)), "fused sm90/fused_many_tokens");
  one_by_one.plan.expert_transport = ExpertTransport::kPeerMemory;
  EXPECT_EQ(chosen_pair(one_by_one), "peer-memory sm90/few_tokens");
  // Above its number of tokens a step is done one operation after the other, also where it is named.
  ExpertRequest large = request({.dp = 2}, kOneGpu, 257);
  EXPECT_EQ(chosen_pair(large), "peer-memory sm90/many_tokens");
  large.plan.expert_transport = ExpertTransport::kFused;
  EXPECT_EQ(chosen_pair(large), "peer-memory sm90/many_tokens");
  EXPECT_EQ(candidate(expert_candidates(large), "fused", "sm90/fused_many_tokens").verdict.reason,
            "stages the rows of at most 256 tokens a rank, and 16,384 assignments of all ranks");
  ExpertRequest bf16 = request({.dp = 2}, kOneGpu, 1);
  bf16.weights = WeightFormat::kBF16;
  EXPECT_EQ(chosen_pair(bf16), "peer-memory sm90/bf16");
  // Parts of inner widths are experts as well.
  const ParallelPlan split{.tp = 2, .ep = 1, .moe_tp = 2};
  EXPECT_EQ(chosen_pair(request(split, kOneGpu, 4)), "all-reduce sm90/four_tokens");
  EXPECT_EQ(chosen_pair(request(split, kOneGpu, 512)), "all-reduce sm90/many_tokens");
}

/// Verdicts of the oracle are those of the table that runs: no pair is a list of its own.
TEST(ExpertOracle, OfOneRankAsWell) {
  EXPECT_EQ(chosen_pair(request({}, kProcessor)), "none simd");
  EXPECT_EQ(chosen_pair(request({.pp = 2}, kProcessor, 0)), "none simd") << "a step without rows";
}

}  // namespace
}  // namespace baleen
