// Scores by SIMD; the choice is one scalar pass over the experts, which keeps the k best so far in order. An
// expert rarely enters that list (about k ln(E / k) times), so the pass costs little more than reading the
// keys.

#include <algorithm>
#include <cmath>
#include <limits>

#include "numeric/simd_targets.h"
#include "ops/operation/row_blocks.h"
#include "ops/route/route.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/route/route_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

void softmax_simd(const float* logits, std::int64_t count, float* scores) {
  float largest = kLowest;
  for (std::int64_t e = 0; e < count; ++e)
    largest = logits[e] > largest ? logits[e] : largest;  // passes over NaN
  for_each_vector(count, [&](auto d, std::int64_t e) HWY_ATTR {
    hn::StoreU(safe_exp(d, hn::Sub(hn::LoadU(d, logits + e), hn::Set(d, largest))), d, scores + e);
  });
  const float sum =
      sum_over_vectors(count, [&](auto d, std::int64_t e) HWY_ATTR { return hn::LoadU(d, scores + e); });
  for_each_vector(count, [&](auto d, std::int64_t e) HWY_ATTR {
    hn::StoreU(hn::Div(hn::LoadU(d, scores + e), hn::Set(d, sum)), d, scores + e);
  });
}

}  // namespace

void route_scores(const float* logits, RouteScoring scoring, std::int64_t count, float* scores) {
  switch (scoring) {
    case RouteScoring::kSqrtSoftplus:
      return for_each_vector(count, [&](auto d, std::int64_t e) HWY_ATTR {
        hn::StoreU(hn::Sqrt(softplus_simd(d, hn::LoadU(d, logits + e))), d, scores + e);
      });
    case RouteScoring::kSigmoid:
      return for_each_vector(count, [&](auto d, std::int64_t e) HWY_ATTR {
        hn::StoreU(sigmoid_simd(d, hn::LoadU(d, logits + e)), d, scores + e);
      });
    case RouteScoring::kSoftmax:
      return softmax_simd(logits, count, scores);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {
namespace {

HWY_EXPORT(route_scores);

constexpr float kLowestKey = -std::numeric_limits<float>::infinity();

/// Sum of the two largest keys (of the only one in a group of one).
float group_key(std::span<const float> keys) {
  float first = kLowestKey;
  float second = kLowestKey;
  for (const float key : keys) {
    second = std::max(second, std::min(first, key));
    first = std::max(first, key);
  }
  const float sum = keys.size() > 1 ? first + second : first;
  return std::isnan(sum) ? kLowestKey : sum;
}

/// Whether fewer than `num_kept` groups come before `group`.
bool group_is_kept(std::span<const float> group_keys, std::size_t group, int num_kept) {
  int before = 0;
  for (std::size_t other = 0; other < group_keys.size(); ++other) {
    const bool wins_tie = other < group;
    before +=
        group_keys[other] > group_keys[group] || (wins_tie && group_keys[other] == group_keys[group]) ? 1 : 0;
  }
  return before < num_kept;
}

/// Offers experts [begin, end) in ascending order to the list of the best; best_keys holds the keys of `ids`.
void offer(std::span<const float> keys, std::size_t begin, std::size_t end, std::span<std::int32_t> ids,
           std::span<float> best_keys, std::size_t& num_listed) {
  for (std::size_t e = begin; e < end; ++e) {
    const float key = keys[e];
    if (num_listed == ids.size()) {
      if (!(key > best_keys[num_listed - 1])) continue;
    } else {
      ++num_listed;
    }
    std::size_t at = num_listed - 1;
    for (; at > 0 && key > best_keys[at - 1]; --at) {
      ids[at] = ids[at - 1];
      best_keys[at] = best_keys[at - 1];
    }
    ids[at] = static_cast<std::int32_t>(e);
    best_keys[at] = key;
  }
}

/// keys: [E], without NaN; group_keys: room for num_groups; best_keys: room for k.
void choose(const RouteArgs& args, std::span<const float> keys, std::span<float> group_keys,
            std::span<std::int32_t> ids, std::span<float> best_keys) {
  std::size_t num_listed = 0;
  if (args.num_groups_kept >= args.num_groups) return offer(keys, 0, keys.size(), ids, best_keys, num_listed);
  const std::size_t size = keys.size() / group_keys.size();
  for (std::size_t group = 0; group < group_keys.size(); ++group) {
    group_keys[group] = group_key(keys.subspan(group * size, size));
  }
  for (std::size_t group = 0; group < group_keys.size(); ++group) {
    if (!group_is_kept(group_keys, group, args.num_groups_kept)) continue;
    offer(keys, group * size, (group + 1) * size, ids, best_keys, num_listed);
  }
}

/// scratch: three times E.
void route_row(const RouteArgs& args, std::int64_t t, float* scratch) {
  const auto num_experts = static_cast<std::size_t>(args.logits.extent(1));
  const std::span<float> scores(scratch, num_experts);
  const std::span<std::int32_t> ids = args.ids.row(t);
  const std::span<float> weights = args.weights.row(t);
  HWY_DYNAMIC_DISPATCH(route_scores)
  (args.logits.row(t).data(), args.scoring, args.logits.extent(1), scores.data());
  if (!args.hash_table.empty()) {
    std::ranges::copy(args.hash_table.row(args.tokens[static_cast<std::size_t>(t)]), ids.begin());
  } else {
    const std::span<float> keys(scratch + num_experts, num_experts);
    for (std::size_t e = 0; e < num_experts; ++e) {
      const float key = args.bias.empty() ? scores[e] : scores[e] + args.bias[e];
      keys[e] = std::isnan(key) ? kLowestKey : key;
    }
    const std::span<float> group_keys(scratch + 2 * num_experts, static_cast<std::size_t>(args.num_groups));
    choose(args, keys, group_keys, ids, weights);
  }
  float sum = 0.0F;
  for (const std::int32_t id : ids) sum += scores[static_cast<std::size_t>(id)];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float score = scores[static_cast<std::size_t>(ids[i])];
    weights[i] = (args.normalise ? score / (sum + args.sum_eps) : score) * args.scale;
  }
}

std::int64_t scratch_floats(std::int64_t num_experts) { return 3 * num_experts; }

}  // namespace

void route_cpu(const RouteArgs& args, CpuContext& context) {
  const std::int64_t num_experts = args.logits.extent(1);
  const ScratchScope scope(context.scratch);
  auto* scratch = context.scratch.allocate<float>(context.pool.num_threads() * scratch_floats(num_experts));
  // A logit costs about as much as 16 values of a plain copy.
  for_row_blocks(context.pool, args.ids.extent(0), 16 * num_experts,
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   for (std::int64_t t = begin; t < end; ++t) {
                     route_row(args, t, scratch + thread * scratch_floats(num_experts));
                   }
                 });
  if (args.load.empty()) return;
  for (std::int64_t t = 0; t < args.ids.extent(0); ++t) {
    for (const std::int32_t id : args.ids.row(t)) ++args.load[static_cast<std::size_t>(id)];
  }
}

std::int64_t route_scratch_bytes(std::int64_t num_experts, int num_threads) {
  return Arena::bytes_for<float>(num_threads * scratch_floats(num_experts));
}

}  // namespace baleen
#endif  // HWY_ONCE
