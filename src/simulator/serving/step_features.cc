#include "simulator/serving/step_features.h"

#include <algorithm>

namespace baleen {
namespace {

constexpr std::int64_t kFine = 4, kCoarse = 128;  ///< positions of a compressed entry

/// Sum of m div r over m = 1 .. x.
std::int64_t sum_of_entries(std::int64_t x, std::int64_t r) {
  const std::int64_t a = x / r, b = x % r;
  return r * (a * (a - 1) / 2) + a * (b + 1);
}

/// Sum of min(most, m div r) over m = 1 .. x.
std::int64_t sum_of_selected(std::int64_t x, std::int64_t r, std::int64_t most) {
  return sum_of_entries(std::min(x, r * most - 1), r) + most * std::max<std::int64_t>(0, x - r * most + 1);
}

/// Sum of min(most, m) over m = 1 .. x.
std::int64_t sum_of_window(std::int64_t x, std::int64_t most) {
  const std::int64_t inside = std::min(x, most);
  return inside * (inside + 1) / 2 + most * (x - inside);
}

/// By the first terms of the sums themselves: a step that decodes is nothing else. Window rows are from
/// `window_begin` on.
void add_token(const QueryPart& part, std::int64_t window_begin, const AttentionReach& reach,
               StepFeatures& sum) {
  const std::int64_t seen = part.start + 1;
  sum.window_rows += std::min(seen - window_begin, reach.window_tokens);
  sum.index_scores += seen / kFine;
  sum.selected_entries += std::min(seen / kFine, reach.index_top_k);
  sum.coarse_entries += seen / kCoarse;
  sum.emissions += seen % kFine == 0 ? 1 : 0;
  sum.coarse_emissions += seen % kCoarse == 0 ? 1 : 0;
}

void add_chunk(const QueryPart& part, std::int64_t window_begin, const AttentionReach& reach,
               StepFeatures& sum) {
  const std::int64_t begin = part.start, end = part.start + part.num_tokens;
  const auto between = [&](auto&& up_to) { return up_to(end) - up_to(begin); };
  sum.window_rows +=
      between([&](std::int64_t x) { return sum_of_window(x - window_begin, reach.window_tokens); });
  sum.index_scores += between([](std::int64_t x) { return sum_of_entries(x, kFine); });
  sum.selected_entries +=
      between([&](std::int64_t x) { return sum_of_selected(x, kFine, reach.index_top_k); });
  sum.coarse_entries += between([](std::int64_t x) { return sum_of_entries(x, kCoarse); });
  sum.emissions += end / kFine - begin / kFine;
  sum.coarse_emissions += end / kCoarse - begin / kCoarse;
}

void add_part(const QueryPart& part, std::int64_t window_begin, const AttentionReach& reach,
              StepFeatures& sum) {
  ++sum.num_parts;
  sum.num_tokens += part.num_tokens;
  sum.num_logit_rows += part.num_logits;
  if (part.num_tokens == 1) {
    add_token(part, window_begin, reach, sum);
  } else {
    add_chunk(part, window_begin, reach, sum);
  }
}

}  // namespace

StepFeatures features_of(std::span<const QueryPart> parts, const AttentionReach& reach) {
  StepFeatures sum;
  for (const QueryPart& part : parts) add_part(part, 0, reach, sum);
  return sum;
}

StepFeatures decoder_features_of(std::span<const QueryPart> parts, const AttentionReach& reach) {
  StepFeatures sum;
  for (const QueryPart& part : parts) {
    if (part.num_encoded() < part.num_tokens) add_part(part.in_decoder(), part.decoder_begin, reach, sum);
  }
  return sum;
}

}  // namespace baleen
