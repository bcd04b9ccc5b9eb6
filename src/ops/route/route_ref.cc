#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/route/route.h"

namespace baleen {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

float nan_lowest(float value) { return std::isnan(value) ? kLowest : value; }

std::vector<float> scores_of(std::span<const float> logits, RouteScoring scoring) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (scoring == RouteScoring::kSoftmax) {
    float largest = kLowest;
    for (const float z : logits) largest = std::max(largest, nan_lowest(z));
    double sum = 0.0;
    for (float& z : scores) sum += z = std::exp(z - largest);
    for (float& z : scores) z = static_cast<float>(z / sum);
    return scores;
  }
  for (float& z : scores) {
    if (scoring == RouteScoring::kSigmoid) {
      z = 1.0F / (1.0F + std::exp(-z));
    } else {
      z = std::sqrt(z > 20.0F ? z : std::log1p(std::exp(z)));
    }
  }
  return scores;
}

/// The `count` largest of keys[candidates], best first, the earlier candidate on ties.
std::vector<std::int32_t> best(const std::vector<float>& keys, std::vector<std::int32_t> candidates,
                               std::int64_t count) {
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::int32_t a, std::int32_t b) {
    return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
  });
  candidates.resize(static_cast<std::size_t>(count));
  return candidates;
}

std::vector<std::int32_t> first_numbers(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Experts of the kept groups in ascending order.
std::vector<std::int32_t> candidates_of(const std::vector<float>& keys, const RouteArgs& args) {
  const auto num_groups = static_cast<std::size_t>(args.num_groups);
  const std::size_t size = keys.size() / num_groups;
  std::vector<float> group_keys(num_groups);
  for (std::size_t group = 0; group < num_groups; ++group) {
    std::vector<float> members(keys.begin() + static_cast<std::ptrdiff_t>(group * size),
                               keys.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::sort(members.begin(), members.end(), std::greater<>());
    group_keys[group] = nan_lowest(size > 1 ? members[0] + members[1] : members[0]);
  }
  std::vector<std::int32_t> kept = best(group_keys, first_numbers(num_groups), args.num_groups_kept);
  std::sort(kept.begin(), kept.end());
  std::vector<std::int32_t> candidates;
  for (const std::int32_t group : kept) {
    for (std::size_t i = 0; i < size; ++i) {
      candidates.push_back(static_cast<std::int32_t>(static_cast<std::size_t>(group) * size + i));
    }
  }
  return candidates;
}

std::vector<std::int32_t> chosen_experts(const std::vector<float>& scores, const RouteArgs& args,
                                         std::int64_t t) {
  if (!args.hash_table.empty()) {
    const auto row = args.hash_table.row(args.tokens[static_cast<std::size_t>(t)]);
    return {row.begin(), row.end()};
  }
  std::vector<float> keys = scores;
  for (std::size_t e = 0; e < keys.size(); ++e) {
    keys[e] = nan_lowest(args.bias.empty() ? keys[e] : keys[e] + args.bias[e]);
  }
  return best(keys, candidates_of(keys, args), args.ids.extent(1));
}

}  // namespace

void route_ref(const RouteArgs& args) {
  for (std::int64_t t = 0; t < args.ids.extent(0); ++t) {
    const std::vector<float> scores = scores_of(args.logits.row(t), args.scoring);
    const std::vector<std::int32_t> experts = chosen_experts(scores, args, t);
    double sum = 0.0;
    for (const std::int32_t e : experts) sum += scores[static_cast<std::size_t>(e)];
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const double score = scores[static_cast<std::size_t>(experts[i])];
      args.ids(t, i) = experts[i];
      args.weights(t, i) =
          static_cast<float>((args.normalise ? score / (sum + args.sum_eps) : score) * args.scale);
      if (!args.load.empty()) ++args.load[static_cast<std::size_t>(experts[i])];
    }
  }
}

}  // namespace baleen
