#include "sampling/dry_penalty.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/token_history.h"

namespace baleen {
namespace {

/// The largest exponent that keeps base^exponent a float, as llama.cpp has it; no limit for a base near 1.
std::int64_t largest_exponent(double base) {
  constexpr double kLogOfLargestFloat = 88.7228391, kNearOne = 1.000001;
  return base > kNearOne ? static_cast<std::int64_t>(kLogOfLargestFloat / std::log(base))
                         : std::numeric_limits<std::int64_t>::max();
}

bool ends_at(std::span<const TokenId> after, const std::vector<TokenId>& rest) {
  return rest.size() <= after.size() && std::equal(rest.begin(), rest.end(), after.begin());
}

}  // namespace

std::int64_t DryPenalty::unbroken_tokens(std::span<const TokenId> recent) const {
  const auto count = std::ssize(recent);
  if (!params_.breakers) return count;
  for (std::int64_t from_end = 0; from_end < count; ++from_end) {
    const auto at = static_cast<std::size_t>(count - 1 - from_end);
    const auto found = params_.breakers->find(recent[at]);
    if (found == params_.breakers->end()) continue;
    std::int64_t longest = -1;
    for (const std::vector<TokenId>& rest : found->second) {
      if (ends_at(recent.subspan(at + 1), rest)) longest = std::max(longest, std::ssize(rest));
    }
    if (longest >= 0) return from_end - longest;
  }
  return count;
}

void DryPenalty::penalise(std::span<float> logits) {
  const std::span<const TokenId> all = tokens_;
  const std::size_t most = params_.penalty_last_n < 0
                               ? all.size()
                               : std::min(all.size(), static_cast<std::size_t>(params_.penalty_last_n));
  const std::span<const TokenId> recent = all.last(most);
  const std::int64_t count = std::ssize(recent);
  if (count <= params_.allowed_length) return;
  const std::int64_t unbroken = unbroken_tokens(recent);
  if (unbroken < params_.allowed_length) return;

  // matches_[k]: how many of the latest tokens equal those that end k tokens before them. The Z function of
  // the tokens read from the end: a match of `end - begin` tokens at `begin` is known, and repeats inside
  // itself what is known of the beginning.
  const auto from_end = [&](std::int64_t k) { return recent[static_cast<std::size_t>(count - 1 - k)]; };
  matches_.assign(static_cast<std::size_t>(count), 0);
  longest_.clear();
  std::int64_t begin = 0, end = 0;
  for (std::int64_t k = 1; k < count; ++k) {
    std::int64_t& match = matches_[static_cast<std::size_t>(k)];
    if (k < end) match = std::min(end - k, matches_[static_cast<std::size_t>(k - begin)]);
    while (k + match < count && from_end(match) == from_end(k + match)) ++match;
    if (k + match > end) begin = k, end = k + match;
    const std::int64_t length = std::min(match, unbroken);
    if (length < params_.allowed_length) continue;
    std::int64_t& longest = longest_[from_end(k - 1)];
    longest = std::max(longest, length);
  }

  const std::int64_t most_exponent = largest_exponent(params_.base);
  for (const auto& [id, length] : longest_) {
    if (params_.breakers) {
      const auto found = params_.breakers->find(id);
      const bool is_whole = found != params_.breakers->end() &&
                            std::ranges::any_of(found->second, [](const auto& rest) { return rest.empty(); });
      if (is_whole) continue;
    }
    float& logit = logits[static_cast<std::size_t>(id)];
    if (std::isinf(logit)) continue;
    const auto exponent = static_cast<double>(std::min(length - params_.allowed_length, most_exponent));
    logit = finite_logit(logit - params_.multiplier * std::pow(params_.base, exponent));
  }
}

}  // namespace baleen
