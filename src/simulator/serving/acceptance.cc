#include "simulator/serving/acceptance.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace baleen {
namespace {

/// Chains are shorter, replies too: a place of its own for every draft of every reply.
constexpr std::uint64_t kMaxDrafts = 64, kMaxReplyTokens = std::uint64_t{1} << 24;

}  // namespace

Acceptance Acceptance::of_chain(std::vector<double> chain, std::uint64_t seed) {
  for (const double chance : chain) {
    if (!(chance >= 0 && chance <= 1))
      fail("acceptance: {} is no probability; give values from 0 to 1", chance);
  }
  return {std::move(chain), {}, seed};
}

Acceptance Acceptance::recorded(std::vector<std::int64_t> accepted, std::uint64_t seed) {
  if (accepted.empty()) fail("accepted lengths: there are none; record at least one step");
  for (const std::int64_t length : accepted) {
    if (length < 0) fail("accepted lengths: {} is negative; 0 means that no draft was right", length);
  }
  return {{}, std::move(accepted), seed};
}

std::int64_t Acceptance::accepted(std::int64_t number, std::int64_t reply_tokens,
                                  std::int64_t num_drafts) const {
  const std::uint64_t step = static_cast<std::uint64_t>(number) * kMaxReplyTokens +
                             static_cast<std::uint64_t>(reply_tokens) % kMaxReplyTokens;
  if (!recorded_.empty()) {
    const double place = draws_.uniform(step) * static_cast<double>(recorded_.size());
    return std::min(recorded_[static_cast<std::size_t>(place)], num_drafts);
  }
  std::int64_t accepted = 0;
  for (; accepted < num_drafts && !chain_.empty(); ++accepted) {
    const auto position = std::min(static_cast<std::size_t>(accepted), chain_.size() - 1);
    if (draws_.uniform(step * kMaxDrafts + static_cast<std::uint64_t>(accepted)) >= chain_[position]) break;
  }
  return accepted;
}

}  // namespace baleen
