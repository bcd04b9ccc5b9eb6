/// What was found of the prompts of recent requests, for whoever asks why it was not more.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "engine/step_engine.h"
#include "scheduler/request.h"

namespace baleen {

struct RecentPrefix {
  RequestId request{};
  PrefixLookup lookup;
  /// Tokens of the prompt before the first that differs, and from it on: a few of each.
  std::vector<TokenId> before, prompt;
};

/// The last 32.
class RecentPrefixes {
 public:
  static constexpr std::size_t kMaxRecords = 32;

  void add(RequestId request, PrefixLookup lookup, std::span<const TokenId> prompt);
  /// The newest last.
  [[nodiscard]] std::vector<RecentPrefix> all() const { return {records_.begin(), records_.end()}; }

 private:
  std::deque<RecentPrefix> records_;
};

}  // namespace baleen
