// Slots of experts that came from outside the device's memory, against a list in the order of use.
#include "ops/experts/expert_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <vector>

namespace baleen {
namespace {

/// As a copying kernel keeps them.
struct Slots {
  explicit Slots(int count) : experts(static_cast<std::size_t>(count), -1), ages(experts.size()) {}

  /// A step's experts, or with `guess` those of a guess. Returns those that had to come.
  std::vector<std::int32_t> take(const std::set<std::int32_t>& chosen, bool guess) {
    const int count = static_cast<int>(experts.size());
    std::vector<std::int32_t> keys, misses;
    for (std::size_t slot = 0; slot < experts.size(); ++slot)
      keys.push_back(eviction_key(experts[slot], ages[slot], chosen.contains(experts[slot])));
    for (const std::int32_t expert : chosen) {
      if (std::ranges::find(experts, expert) == experts.end()) misses.push_back(expert);
    }
    const std::vector<std::int32_t> before = experts;
    for (int slot = 0; slot < count; ++slot) {
      const auto at = static_cast<std::size_t>(slot);
      const auto rank = static_cast<std::size_t>(slots_before(keys.data(), count, slot));
      const bool replaced = keys[at] != kKeptSlot && rank < misses.size();
      if (replaced) experts[at] = misses[rank];
      if (replaced && guess) ages[at] = kOldestAge;
      if (!guess) ages[at] = next_age(ages[at], replaced || keys[at] == kKeptSlot);
    }
    return misses;
  }

  std::vector<std::int32_t> experts, ages;
};

/// The same by a list, the latest step's experts first; those of one step in the order of their slots.
TEST(ExpertSlots, KeepWhatWasChosenLast) {
  for (const int num_slots : {0, 1, 3, 7}) {
    Slots slots(num_slots);
    std::vector<std::set<std::int32_t>> history;
    std::mt19937 random(static_cast<unsigned>(num_slots));
    for (int step = 0; step < 300; ++step) {
      std::set<std::int32_t> chosen;
      while (chosen.size() < 3) chosen.insert(static_cast<std::int32_t>(random() % 12));
      const std::vector<std::int32_t> before = slots.experts;
      const std::vector<std::int32_t> misses = slots.take(chosen, false);
      history.push_back(chosen);
      const auto last_use = [&](std::int32_t expert) {
        for (std::size_t i = history.size(); i-- > 0;) {
          if (history[i].contains(expert)) return static_cast<int>(i);
        }
        return -1;
      };
      const auto holds = [&](std::int32_t expert) {
        return std::ranges::find(slots.experts, expert) != slots.experts.end();
      };
      const std::size_t held = static_cast<std::size_t>(std::ranges::count_if(chosen, holds));
      EXPECT_EQ(held, std::min<std::size_t>(3, static_cast<std::size_t>(num_slots)));
      // What was put out was used no later than what stayed.
      for (const std::int32_t out : before) {
        if (out < 0 || holds(out)) continue;
        for (const std::int32_t kept : before) {
          if (kept >= 0 && holds(kept)) {
            EXPECT_LE(last_use(out), last_use(kept));
          }
        }
      }
    }
  }
}

TEST(ExpertSlots, AWrongGuessIsTakenFirst) {
  Slots slots(3);
  slots.take({1, 2, 3}, false);
  slots.take({1, 2}, false);
  slots.take({9}, true);  // in place of 3
  EXPECT_EQ(slots.experts, (std::vector<std::int32_t>{1, 2, 9}));
  slots.take({4}, false);
  EXPECT_EQ(slots.experts, (std::vector<std::int32_t>{1, 2, 4}));
  slots.take({8}, true);
  EXPECT_EQ(slots.take({8}, false), std::vector<std::int32_t>());  // a right one
  slots.take({5}, false);
  EXPECT_NE(std::ranges::find(slots.experts, 8), slots.experts.end());
}

TEST(ExpertSlots, AGuessPutsOutNothingThatItNames) {
  Slots slots(2);
  slots.take({1, 2}, false);
  slots.take({1, 2, 3, 4}, true);
  EXPECT_EQ(slots.experts, (std::vector<std::int32_t>{1, 2}));
}

}  // namespace
}  // namespace baleen
