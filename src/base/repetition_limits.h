/// When repetition in a reply is a loop: from who asks to the loop that makes the reply.
#pragma once

#include <cstdint>

namespace baleen {

struct RepetitionLimits {
  static constexpr std::int64_t kMaxPeriod = 512, kMaxTokens = 1 << 26, kMaxCount = 1000;

  std::int64_t min_tokens = 2048;        ///< words that must have repeated: 1 to kMaxTokens
  std::int64_t min_count = 4;            ///< how often a period must have come: 2 to kMaxCount
  std::int64_t max_period = kMaxPeriod;  ///< tokens: 1 to kMaxPeriod
};

}  // namespace baleen
