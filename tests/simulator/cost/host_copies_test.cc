// Copies of experts on the host: what they add to a step, by hand, and what a whole step then does.

#include "simulator/cost/host_copies.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/presets.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {
namespace {

/// 2 blocks of 10 experts, a fifth of them on the host; 100 bytes each, 1,000 bytes a second by either way.
HostExperts ten_experts() {
  return {.counts = {.num_blocks = 2, .num_experts = 10, .num_on_host = 4},
          .block_bytes = 100,
          .level = {.bytes_per_second = 1000, .kernel_bytes_per_second = 1000}};
}

GraphOp experts_of(std::int64_t block) { return {.name = "experts", .block = block}; }

OpTime products(double seconds) { return {.seconds = seconds, .memory_seconds = seconds}; }

TEST(HostCopies, OneRowWaitsForWhatItChose) {
  const HostExperts experts = ten_experts();
  HostCopies copies(experts, 5, 1, 0);
  EXPECT_DOUBLE_EQ(copies.bytes_of_a_block(), 100) << "half of the two on the host";
  OpTime time = products(1);
  copies.add_to(time, experts_of(0), 7);
  EXPECT_DOUBLE_EQ(time.seconds, 1.1);
  EXPECT_DOUBLE_EQ(time.host_copy_seconds, 0.1);
}

TEST(HostCopies, FewRowsMultiplyResidentExpertsMeanwhile) {
  const HostExperts experts = ten_experts();
  HostCopies copies(experts, 10, 8,
                    0);  // all experts are chosen: two copies, 0.2 s, and 0.8 of the products beside them
  OpTime slow = products(1), quick = products(0.1);
  copies.add_to(slow, experts_of(0), 0);
  EXPECT_DOUBLE_EQ(slow.seconds, 1) << "hidden";
  copies.add_to(quick, experts_of(1), 0);
  EXPECT_NEAR(quick.seconds, 0.2 + 0.02, 1e-12);
  EXPECT_EQ(quick.bound, Bound::kHostCopies);
}

TEST(HostCopies, GuessesComeBesideTheBlockBefore) {
  HostExperts experts = ten_experts();
  experts.counts.num_slots = 2;
  const auto second = [&](double guessed, double start) {
    HostCopies copies(experts, 5, 1, 0, guessed);
    OpTime time = products(1);
    copies.add_to(time, experts_of(0), 0);  // no block is before: 0.1 s, as all of them
    EXPECT_DOUBLE_EQ(time.host_copy_seconds, 0.1);
    time = products(1);
    copies.add_to(time, experts_of(1), start);
    return time.host_copy_seconds;
  };
  EXPECT_DOUBLE_EQ(second(0, 2), 0.1);
  EXPECT_DOUBLE_EQ(second(1, 0.1), 0.1) << "no time between";
  // An expert takes 0.1 s, one comes on the average: none with 1/e, one as often, two half as often ...
  const double none = std::exp(-1.0);
  EXPECT_GT(second(0.5, 100), 0.05) << "what is not guessed is waited for";
  // Two slots: from the third on each is waited for. E[n - 2 | n > 2] = 1 - 2 + 2 p(0) + p(1).
  EXPECT_NEAR(second(1, 100), 0.1 * (-1 + 3 * none), 1e-9);
  EXPECT_LT(second(1, 0.2), second(1, 0.15)) << "the longer the time, the more has come";
}

TEST(HostCopies, ManyRowsFindThemCopiedBehindTheLayersBefore) {
  const HostExperts experts = ten_experts();
  HostCopies copies(experts, 5, 1000, 0);
  OpTime first = products(1), second = products(1), third = products(1);
  copies.add_to(first, experts_of(0), 0.05);
  EXPECT_NEAR(first.seconds, 1.15, 1e-12) << "0.2 s of copies have begun at 0";
  copies.add_to(second, experts_of(1), 1.3);
  EXPECT_DOUBLE_EQ(second.seconds, 1) << "copied until 0.4";
  copies.add_to(third, experts_of(0), 2.3);
  EXPECT_DOUBLE_EQ(third.seconds, 1) << "into the buffer that was free at 1.2";
}

TEST(HostCopies, OtherOperationsAndBlocksElsewhereAreLeftAlone) {
  const HostExperts experts = ten_experts(), none;
  OpTime time = products(1);
  HostCopies(experts, 5, 1, 0).add_to(time, experts_of(2), 0);
  HostCopies(experts, 5, 1, 0).add_to(time, {.name = "linear", .block = 0}, 0);
  HostCopies(none, 5, 1, 0).add_to(time, experts_of(0), 0);
  EXPECT_DOUBLE_EQ(time.seconds, 1);
}

TEST(HostCopies, RanksHaveAPartOfTheExpertsAndTheTokensOfAllGroups) {
  const HostExperts alone = ten_experts();
  HostExperts shared = alone;
  shared.counts.num_experts = 5;
  shared.counts.num_on_host /= 2;
  shared.counts.num_routed = 10;
  shared.counts.num_groups = 2;
  // Half of the experts, chosen by twice the rows.
  EXPECT_DOUBLE_EQ(HostCopies(shared, 5, 1, 0).bytes_of_a_block(),
                   HostCopies(alone, 5, 2, 0).bytes_of_a_block() / 2);
  EXPECT_DOUBLE_EQ(HostCopies(shared, 5, 1, 1).bytes_of_a_block(),
                   HostCopies(alone, 5, 2, 1).bytes_of_a_block() / 2);
}

TEST(HostCopies, TheSharedExpertOfRanksWaitsForNothing) {
  const HostExperts experts = ten_experts();
  HostCopies copies(experts, 5, 1, 0);
  OpTime routed = products(1), own = products(1), next = products(1), router{};
  copies.add_to(routed, experts_of(0), 0);
  EXPECT_GT(routed.host_copy_seconds, 0);
  copies.add_to(own, experts_of(0), 1);
  EXPECT_DOUBLE_EQ(own.seconds, 1);
  copies.add_to(router, {.name = "route", .block = 0}, 2);
  copies.add_to(next, experts_of(0), 3);
  EXPECT_DOUBLE_EQ(next.host_copy_seconds, routed.host_copy_seconds) << "the next of a chain of drafts";
}

/// A whole step of Flash on one device that does not hold it.
TEST(HostCopies, AStepOfAModelThatIsLargerThanItsDevice) {
  const SimulatedModel flash{"flash", preset_config("flash"), {}};
  const DeviceProfile& h200 = *find_device_profile("h200");
  const PlanRanks ranks(flash, resolved({.num_devices = 1}, flash.config));
  DeviceProfile large = h200;
  large.memory_bytes *= 2;
  Workload work{.context_length = 4096, .decode = true};
  const auto seconds = [&](const DeviceProfile& device) {
    return estimate_step(ranks, work, device).seconds;
  };
  const StepEstimate step = estimate_step(ranks, work, h200);
  EXPECT_TRUE(step.fits());
  const ExpertCounts& counts = step.stages.front().memory.experts;
  const double share = static_cast<double>(counts.num_on_host) / static_cast<double>(counts.num_in_all());
  // 6 experts of 13.4 MB in each of 43 layers, of which this share crosses the link.
  const double copies = 43 * 6 * share * 13.37e6 / h200.memory_levels.front().kernel_bytes_per_second;
  EXPECT_NEAR(step.seconds, seconds(large) + copies, 0.01 * copies);
  work.zipf = 1;
  EXPECT_LT(seconds(h200) - seconds(large), copies / 2) << "those that are used least lie on the host";
  work = {.query_length = 8192};
  EXPECT_LT(seconds(h200), 1.02 * seconds(large)) << "copied behind the layers";
}

}  // namespace
}  // namespace baleen
