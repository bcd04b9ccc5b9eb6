#include "scheduler/recent_prefixes.h"

#include <algorithm>
#include <utility>

namespace baleen {

void RecentPrefixes::add(RequestId request, PrefixLookup lookup, std::span<const TokenId> prompt) {
  const std::int64_t at = std::min<std::int64_t>(lookup.first_difference, std::ssize(prompt));
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    begin = std::max<std::int64_t>(begin, 0);
    end = std::min<std::int64_t>(end, std::ssize(prompt));
    return std::vector<TokenId>(prompt.begin() + begin, prompt.begin() + end);
  };
  constexpr std::int64_t kShown = PrefixLookup::kMaxCachedTokens;
  records_.push_back({.request = request,
                      .lookup = std::move(lookup),
                      .before = part(at - kShown, at),
                      .prompt = part(at, at + kShown)});
  if (records_.size() > kMaxRecords) records_.pop_front();
}

}  // namespace baleen
