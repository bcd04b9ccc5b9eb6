// The schedule of drafts on made-up machines: a step's seconds are a function of its rows, and drafts are
// accepted by chances that the test knows.
#include "scheduler/draft_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/scheduler/fake_model.h"

namespace baleen {
namespace {

/// Of the i-th draft, if those before it are: published for the Flash release.
const std::vector<double> kPublishedChances{0.579, 0.772, 0.707, 0.750, 0.667};

/// Seconds of a step of so many rows, with so many drafts among them.
using StepPrice = std::function<double(std::int64_t rows, std::int64_t drafts)>;

/// Bound by weights up to `free_rows` rows, then by arithmetic; a block of drafts costs the same for 1 or 5.
StepPrice machine(double free_rows, double draft_seconds) {
  return [=](std::int64_t rows, std::int64_t drafts) {
    return 0.006 * std::max(1.0, static_cast<double>(rows) / free_rows) + (drafts > 0 ? draft_seconds : 0);
  };
}

struct DraftingWorld {
  DraftingWorld(std::int64_t num_sequences, StepPrice step_price, bool adapts = true)
      : records(static_cast<std::size_t>(num_sequences)),
        chances(records.size(), kPublishedChances),
        price(std::move(step_price)),
        schedule(5, adapts) {}

  void run(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) step();
  }
  void step() {
    std::vector<DraftCandidate> candidates;
    for (const DraftHistory& record : records) candidates.push_back({.record = &record, .most = 5});
    const DraftDecision decision = schedule.allot(candidates, prompt_tokens);
    std::int64_t drafts = 0, accepted = 0;
    given.clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
      const std::int64_t count = candidates[i].num_drafts;
      given.push_back(count);
      drafts += count;
      std::int64_t right = 0;
      while (right < count && next_chance() < chances[i][static_cast<std::size_t>(right)]) ++right;
      if (count > 0) schedule.see(records[i], {.num_accepted = right, .was_refused = right < count});
      accepted += right;
    }
    EXPECT_EQ(decision.without_drafts, drafts == 0);
    const std::int64_t rows = std::ssize(records) + prompt_tokens + drafts;
    const double took = price(rows, drafts);
    schedule.took(decision, drafts, accepted, took);
    ++num_steps;
    num_with_drafts += drafts > 0 ? 1 : 0;
    num_probes += decision.probe ? 1 : 0;
    seconds += took;
    tokens += std::ssize(records) + accepted;
  }
  [[nodiscard]] double next_chance() { return fake_chance(kNoHistory, num_drawn++); }
  [[nodiscard]] double rate() const { return static_cast<double>(tokens) / seconds; }
  void forget_counts() {
    seconds = 0;
    tokens = num_steps = num_with_drafts = num_probes = 0;
  }

  std::vector<DraftHistory> records;
  std::vector<std::vector<double>> chances;
  StepPrice price;
  DraftSchedule schedule;
  std::int64_t prompt_tokens = 0;  ///< of the next step
  std::vector<std::int64_t> given;
  std::uint64_t num_drawn = 0;
  double seconds = 0;
  std::int64_t tokens = 0, num_steps = 0, num_with_drafts = 0, num_probes = 0;
};

/// Tokens a second that are expected when everyone always has so many drafts.
double fixed_rate(std::int64_t num_sequences, std::int64_t drafts, const StepPrice& price) {
  double tokens = 1, chain = 1;
  for (std::int64_t i = 0; i < drafts; ++i) tokens += chain *= kPublishedChances[static_cast<std::size_t>(i)];
  return static_cast<double>(num_sequences) * tokens /
         price(num_sequences * (1 + drafts), num_sequences * drafts);
}

TEST(DraftSchedule, FindsTheBestNumberForEveryBatch) {
  struct Case {
    std::int64_t num_sequences, best;
  };
  const StepPrice price = machine(24, 0.0012);
  for (const auto& [num_sequences, best] : {Case{1, 5}, Case{8, 2}, Case{64, 0}}) {
    SCOPED_TRACE(num_sequences);
    std::vector<double> fixed;
    for (std::int64_t drafts = 0; drafts <= 5; ++drafts)
      fixed.push_back(fixed_rate(num_sequences, drafts, price));
    ASSERT_EQ(std::ranges::max_element(fixed) - fixed.begin(), best) << "the case is not what it says";
    DraftingWorld world(num_sequences, price);
    world.run(300);
    world.forget_counts();
    world.run(3000);
    // Chance, and a probe now and then.
    EXPECT_GT(world.rate(), 0.96 * fixed[static_cast<std::size_t>(best)]);
    std::int64_t probes = 0;
    do {  // the latest step is no probe
      probes = world.num_probes;
      world.step();
    } while (world.num_probes != probes);
    const std::int64_t sum = std::accumulate(world.given.begin(), world.given.end(), std::int64_t{0});
    EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(num_sequences), static_cast<double>(best),
                0.6);
  }
}

/// Where drafts do not pay, what they cost is bounded: probes take a hundredth of the time, and the first
/// steps are few.
TEST(DraftSchedule, IsNeverWorseThanNoDraftsByMoreThanItsProbes) {
  for (const std::int64_t num_sequences : {1, 8, 64}) {
    const StepPrice price = machine(static_cast<double>(num_sequences), 0.004);
    DraftingWorld world(num_sequences, price);
    for (std::vector<double>& chances : world.chances) chances.assign(5, 0.1);
    const std::int64_t kSteps = 4000;
    world.run(kSteps);
    const double without = price(num_sequences, 0), dearest = price(6 * num_sequences, 5 * num_sequences);
    const double first = static_cast<double>(DraftSchedule::kFirstSteps) * dearest;
    EXPECT_LT(world.seconds, (1 + DraftSchedule::kProbeShare) * kSteps * without + first + dearest);
    EXPECT_LE(world.num_with_drafts, kSteps / DraftSchedule::kProbePeriod + DraftSchedule::kFirstSteps);
    EXPECT_LT(10, world.num_probes);  // and it goes on looking
  }
}

TEST(DraftSchedule, FollowsWhatIsAccepted) {
  for (const std::int64_t num_sequences : {1, 16}) {
    DraftingWorld world(num_sequences, machine(100, 0.0012));
    const auto with_drafts_in = [&](std::int64_t steps) {
      world.forget_counts();
      world.run(steps);
      return static_cast<double>(world.num_with_drafts) / static_cast<double>(steps);
    };
    world.run(300);
    EXPECT_GT(with_drafts_in(500), 0.95);
    for (std::vector<double>& chances : world.chances) chances.assign(5, 0.0);
    world.run(500);
    EXPECT_LT(with_drafts_in(500), 0.05);
    for (std::vector<double>& chances : world.chances) chances = kPublishedChances;
    world.run(3000);
    EXPECT_GT(with_drafts_in(500), 0.95);
  }
}

TEST(DraftSchedule, FollowsWhatStepsTake) {
  DraftingWorld world(4, machine(100, 0.0012));
  world.run(1000);
  EXPECT_GT(std::accumulate(world.given.begin(), world.given.end(), 0), 12);
  world.price = machine(4, 0.005);  // longer contexts, another neighbour on the machine
  world.run(1500);
  world.forget_counts();
  world.run(500);
  EXPECT_LT(world.num_with_drafts, 30);
}

TEST(DraftSchedule, GivesToThoseWhoseDraftsAreAccepted) {
  DraftingWorld world(8, machine(12, 0.0004));
  for (std::size_t i = 1; i < 8; ++i) world.chances[i].assign(5, 0.05);
  world.chances[0].assign(5, 0.95);
  world.run(1500);
  std::vector<std::int64_t> sums(8);
  for (int i = 0; i < 500; ++i) {
    world.step();
    for (std::size_t s = 0; s < 8; ++s) sums[s] += world.given[s];
  }
  EXPECT_GT(sums[0], 500 * 3);
  for (std::size_t s = 1; s < 8; ++s) EXPECT_LT(sums[s], 500 / 2);
}

/// Now and then a step without drafts waits for something else: drafts pay no more for that.
TEST(DraftSchedule, LeavesOutStepsThatWaited) {
  const StepPrice price = machine(24, 0.0012);
  std::int64_t num_without = 0;
  DraftingWorld world(64, [&](std::int64_t rows, std::int64_t drafts) {
    const bool waits = drafts == 0 && ++num_without % 5 == 0;
    return (waits ? 50 : 1) * price(rows, drafts);
  });
  world.run(2000);
  EXPECT_LE(world.num_with_drafts, 2000 / DraftSchedule::kProbePeriod + DraftSchedule::kFirstSteps);
}

/// A step that is dear for its prompt's sake says nothing of one without; rows of drafts weigh less in it.
TEST(DraftSchedule, MeasuresStepsWithPromptsApart) {
  const StepPrice alone = machine(24, 0.0012);
  DraftingWorld world(8, [&](std::int64_t rows, std::int64_t drafts) {
    return rows >= 8 + 64 ? 1 + alone(rows - 64, drafts) : alone(rows, drafts);
  });
  std::int64_t with_prompts = 0, without = 0;
  for (int i = 0; i < 2000; ++i) {
    world.prompt_tokens = i % 2 == 0 ? 64 : 0;
    world.step();
    if (i < 1000) continue;
    (i % 2 == 0 ? with_prompts : without) +=
        std::accumulate(world.given.begin(), world.given.end(), std::int64_t{0});
  }
  EXPECT_GT(static_cast<double>(with_prompts) / (500 * 8), 4.5);
  EXPECT_NEAR(static_cast<double>(without) / (500 * 8), 2, 0.6);
}

TEST(DraftSchedule, KnowsOtherBatchesByTheirNeighbours) {
  const StepPrice price = machine(24, 0.0012);
  DraftingWorld world(64, price);
  world.run(500);
  world.records.resize(60);
  world.forget_counts();
  world.run(32);  // no first steps again
  EXPECT_LE(world.num_with_drafts, 1);
  world.records.resize(1);  // far from what is known
  world.forget_counts();
  world.run(400);
  EXPECT_GT(world.num_with_drafts, 350);
}

TEST(DraftSchedule, HasDraftsForNobodyWithoutRoom) {
  DraftSchedule schedule(3, true);
  const DraftHistory record;
  std::vector<DraftCandidate> candidates{{.record = &record, .most = 0}, {.record = &record, .most = 2}};
  EXPECT_FALSE(schedule.allot(candidates, 0).without_drafts);
  EXPECT_EQ(candidates[0].num_drafts, 0);
  EXPECT_EQ(candidates[1].num_drafts, 2);
  EXPECT_TRUE(schedule.allot({}, 100).without_drafts);  // no request decodes
  candidates.resize(1);
  EXPECT_FALSE(schedule.allot(candidates, 0).without_drafts);  // none yet, not none on purpose
  EXPECT_TRUE(DraftSchedule(0, true).allot(candidates, 0).without_drafts);
}

TEST(DraftSchedule, OffIsAlwaysAsMany) {
  DraftingWorld world(64, machine(1, 1), /*adapts=*/false);
  for (int i = 0; i < 200; ++i) {
    world.step();
    EXPECT_EQ(std::ranges::count(world.given, 5), 64);
  }
}

/// Drafts that are made already are checked as far as the head is sure of them.
TEST(DraftSchedule, CutsWhatTheHeadDoubts) {
  DraftingWorld world(
      2, [](std::int64_t rows, std::int64_t) { return 0.004 + 0.0005 * static_cast<double>(rows); });
  for (std::vector<double>& chances : world.chances) chances.assign(5, 0.9);
  world.run(400);
  const std::vector<float> sure(5, 6.0F), doubts{6.0F, 6.0F, -6.0F, 6.0F, 6.0F};
  std::vector<DraftCandidate> candidates{{.record = &world.records[0], .most = 5, .confidence = sure},
                                         {.record = &world.records[1], .most = 5, .confidence = doubts}};
  world.schedule.cut(candidates, {.num_sequences = 2});
  EXPECT_EQ(candidates[0].num_drafts, 5);
  EXPECT_EQ(candidates[1].num_drafts, 2);
}

TEST(DraftAcceptance, LearnsTheTemperatureOfEveryDepth) {
  DraftAcceptance acceptance(2);
  DraftHistory record;
  const double temperatures[2] = {2, 0.5};
  std::uint64_t drawn = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto logit = [&] { return static_cast<float>(6 * fake_chance(1, drawn++) - 2); };
    const std::vector<float> stated{logit(), logit()};
    std::int64_t right = 0;
    while (right < 2 && fake_chance(2, drawn++) <
                            stated_chance(stated[static_cast<std::size_t>(right)] / temperatures[right]))
      ++right;
    acceptance.see(record, {.num_accepted = right, .was_refused = right < 2, .confidence = stated});
  }
  EXPECT_NEAR(acceptance.temperature(0), 2, 0.5);
  EXPECT_NEAR(acceptance.temperature(1), 0.5, 0.15);
  EXPECT_NEAR(acceptance.chance(1.0F, 0), stated_chance(1 / acceptance.temperature(0)), 1e-12);
}

TEST(DraftAcceptance, ARequestsOwnRecordCountsMoreTheLongerItIs) {
  DraftAcceptance acceptance(1);
  DraftHistory others, own;
  for (int i = 0; i < 1000; ++i) acceptance.see(others, {.num_accepted = 1});
  EXPECT_NEAR(acceptance.chance(own, 0), 1, 0.02);
  double before = 1;
  for (int i = 0; i < 12; ++i) {
    acceptance.see(own, {.was_refused = true});
    const double chance = acceptance.chance(own, 0);
    EXPECT_LT(chance, before);
    before = chance;
  }
  EXPECT_LT(before, 0.5);
  EXPECT_GT(acceptance.chance(others, 0), 0.9);
}

TEST(StepCurve, GoesThroughWhatWasMeasured) {
  const StepCurve curve(1.0, {{.drafts_each = 2, .seconds = 3}, {.drafts_each = 4, .seconds = 5}});
  EXPECT_EQ(curve.without_drafts(), 1);
  EXPECT_EQ(curve.with_drafts(0), 1);
  EXPECT_EQ(curve.with_drafts(1), 2);
  EXPECT_EQ(curve.with_drafts(2), 3);
  EXPECT_EQ(curve.with_drafts(3), 4);
  EXPECT_EQ(curve.with_drafts(4), 5);
  EXPECT_EQ(curve.with_drafts(5), 6);
  const StepCurve one(1.0, {{.drafts_each = 2, .seconds = 3}});
  EXPECT_EQ(one.with_drafts(1), 3);  // drafting may have its price
  EXPECT_EQ(one.with_drafts(3), 4);
  const StepCurve noisy(1.0, {{.drafts_each = 1, .seconds = 0.9}, {.drafts_each = 2, .seconds = 0.8}});
  EXPECT_EQ(noisy.with_drafts(2), 1);
}

}  // namespace
}  // namespace baleen
