/// Which slot an expert that comes from outside the device's memory takes. Plain functions, for kernels and
/// tests.
#pragma once

#include <cstdint>
#include <limits>

namespace baleen {

inline constexpr std::int32_t kKeptSlot = -1;

/// The larger, the sooner a slot is taken for another expert: an empty one first, then the one whose expert
/// was chosen longest ago; one whose expert this step has chosen never (kKeptSlot).
/// `expert`: in the slot, -1 for none; `age`: steps since it was chosen.
constexpr std::int32_t eviction_key(std::int32_t expert, std::int32_t age, bool chosen) {
  if (expert < 0) return std::numeric_limits<std::int32_t>::max();
  return chosen ? kKeptSlot : age;
}

/// Slots that are taken before `slot`: with larger keys, or equal ones and a lower number.
constexpr int slots_before(const std::int32_t* keys, int num_slots, int slot) {
  int before = 0;
  for (int other = 0; other < num_slots; ++other)
    before += keys[other] > keys[slot] || (keys[other] == keys[slot] && other < slot) ? 1 : 0;
  return before;
}

/// Also that of an expert which a guess has brought, until a step chooses it: wrong guesses are taken first.
inline constexpr std::int32_t kOldestAge = std::numeric_limits<std::int32_t>::max() - 1;

/// Age of a slot behind a step that has chosen its expert or not.
constexpr std::int32_t next_age(std::int32_t age, bool chosen) {
  return chosen ? 0 : age < kOldestAge ? age + 1 : age;
}

}  // namespace baleen
