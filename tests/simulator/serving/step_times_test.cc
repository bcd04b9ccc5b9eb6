// What a step's cost depends on, and how far a cached cost may be off.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "simulator/serving/cached_step_times.h"

namespace baleen {
namespace {

/// Query by query. `of_decoder`: of the rows that go through the decoder half.
StepFeatures by_definition(std::span<const QueryPart> parts, const AttentionReach& reach,
                           bool of_decoder = false) {
  StepFeatures sum;
  for (const QueryPart& part : parts) {
    const std::int64_t end = part.start + part.num_tokens, first = of_decoder ? part.decoder_begin : 0;
    if (first >= end) continue;
    ++sum.num_parts;
    sum.num_logit_rows += part.num_logits;
    for (std::int64_t seen = std::max(part.start, first) + 1; seen <= end; ++seen) {
      ++sum.num_tokens;
      sum.window_rows += std::min(seen - first, reach.window_tokens);
      sum.index_scores += seen / 4;
      sum.selected_entries += std::min(seen / 4, reach.index_top_k);
      sum.coarse_entries += seen / 128;
      sum.emissions += seen % 4 == 0 ? 1 : 0;
      sum.coarse_emissions += seen % 128 == 0 ? 1 : 0;
    }
  }
  return sum;
}

std::vector<QueryPart> any_parts(std::int64_t most_start) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 20);
  std::vector<QueryPart> parts(count);
  for (QueryPart& part : parts) {
    part.start = *rc::gen::inRange<std::int64_t>(0, most_start);
    part.num_tokens = *rc::gen::oneOf(rc::gen::just<std::int64_t>(1), rc::gen::inRange<std::int64_t>(1, 700));
    part.num_logits = *rc::gen::inRange<std::int64_t>(0, 2);
    part.decoder_begin = *rc::gen::oneOf(
        rc::gen::just<std::int64_t>(0),
        rc::gen::inRange(std::max<std::int64_t>(0, part.start - 200), part.start + part.num_tokens + 200));
  }
  return parts;
}

TEST(StepFeatures, AreSumsOverQueries) {
  EXPECT_TRUE(rc::check([] {
    const auto parts = any_parts(6000);
    const AttentionReach reach{.window_tokens = *rc::gen::element<std::int64_t>(100, 128),
                               .index_top_k = *rc::gen::element<std::int64_t>(512, 1024)};
    RC_ASSERT(features_of(parts, reach) == by_definition(parts, reach));
    RC_ASSERT(decoder_features_of(parts, reach) == by_definition(parts, reach, true));
  }));
}

TEST(StepFeatures, OfAPromptOf8192AreTheSpecifications) {
  const QueryPart prompt{0, 8192, 1};
  const StepFeatures features = features_of(std::span(&prompt, 1), {});
  EXPECT_EQ(features.index_scores, 8'386'560);
  EXPECT_EQ(features.selected_entries, 3'669'504);
  EXPECT_EQ(features.coarse_entries, 258'112);
  EXPECT_EQ(features.window_rows, 1'040'448);
}

/// Affine in all features, also of the decoder half's rows; `emission` seconds of each.
class FeatureTimes final : public StepTimes {
 public:
  explicit FeatureTimes(double emission) : emission_(emission) {}
  double step_seconds(std::span<const QueryPart> parts) override { return sums(parts) + emissions(parts); }
  double draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) override {
    return (depth == 0 ? 3 : 1) * step_seconds(chains);
  }
  [[nodiscard]] static double sums(std::span<const QueryPart> parts) {
    return sums(features_of(parts, {})) + 2 * sums(decoder_features_of(parts, {}));
  }
  [[nodiscard]] double emissions(std::span<const QueryPart> parts) const {
    return emissions(features_of(parts, {})) + 2 * emissions(decoder_features_of(parts, {}));
  }

 private:
  [[nodiscard]] static double sums(const StepFeatures& f) {
    const auto weighted = [](std::int64_t value, double weight) {
      return static_cast<double>(value) * weight;
    };
    return 1e-4 + weighted(f.num_tokens, 2e-6) + weighted(f.num_parts, 1e-6) +
           weighted(f.num_logit_rows, 1e-5) + weighted(f.window_rows, 1e-9) +
           weighted(f.index_scores, 3e-10) + weighted(f.selected_entries, 1e-9) +
           weighted(f.coarse_entries, 1e-9);
  }
  [[nodiscard]] double emissions(const StepFeatures& f) const {
    return emission_ * static_cast<double>(f.emissions + 4 * f.coarse_emissions);
  }

  double emission_;
};

TEST(CachedStepTimes, AreOffByLessThanTheGrid) {
  EXPECT_TRUE(rc::check([] {
    const StepGrid grid{.sum_bits = *rc::gen::inRange(2, 8), .emission_bits = *rc::gen::inRange(0, 4)};
    const auto exact = std::make_shared<FeatureTimes>(1e-7);
    CachedStepTimes cached(exact, {}, grid);
    const std::int64_t reach = *rc::gen::element<std::int64_t>(50, 1000, 20000);
    for (int step = 0; step < 40; ++step) {
      const auto parts = any_parts(reach);
      const double bound = std::ldexp(FeatureTimes::sums(parts), -grid.sum_bits) +
                           std::ldexp(exact->emissions(parts), -grid.emission_bits);
      // A cell's first step may be its largest: then the bound is of that one, at most twice as wide where G
      // is 0.
      const double off = cached.step_seconds(parts) - exact->step_seconds(parts);
      RC_ASSERT(-off <= bound * (1 + 1e-9));
      RC_ASSERT(off <=
                bound * (1 + std::ldexp(1.0, -std::min(grid.sum_bits, grid.emission_bits))) * (1 + 1e-9));
    }
  }));
}

TEST(CachedStepTimes, AskOncePerCell) {
  CachedStepTimes cached(std::make_shared<FeatureTimes>(1e-7), {}, {.sum_bits = 3});
  const QueryPart decode{5000, 1, 1}, nearly_alike{5004, 1, 1}, other{9000, 1, 1};
  const double seconds = cached.step_seconds(std::span(&decode, 1));
  EXPECT_EQ(cached.step_seconds(std::span(&nearly_alike, 1)), seconds);
  EXPECT_NE(cached.step_seconds(std::span(&other, 1)), seconds);
  EXPECT_EQ(cached.num_asked(), 3);
  EXPECT_EQ(cached.num_computed(), 2);
}

/// Steps of the same tokens of which others go through the decoder half are others.
TEST(CachedStepTimes, KnowTheDecoderHalf) {
  const auto exact = std::make_shared<FeatureTimes>(1e-7);
  CachedStepTimes cached(exact, {});
  for (const std::int64_t decoder_begin : {0, 9000, 4900, 5128, 5300}) {
    const QueryPart part{5000, 512, 0, decoder_begin};
    EXPECT_EQ(cached.step_seconds(std::span(&part, 1)), exact->step_seconds(std::span(&part, 1)));
  }
  EXPECT_EQ(cached.num_computed(), 5);
  // Where the decoder half begins a window before, it has all rows and whole windows.
  const QueryPart whole{5000, 512, 0, 4000};
  static_cast<void>(cached.step_seconds(std::span(&whole, 1)));
  EXPECT_EQ(cached.num_computed(), 5);
}

TEST(CachedStepTimes, OfDraftsDependOnTheWindowAndOnWhetherTheyAreTheFirst) {
  CachedStepTimes cached(std::make_shared<FeatureTimes>(1e-7), {});
  const QueryPart here{5000, 1, 1}, there{90000, 1, 1};
  const double first = cached.draft_seconds(std::span(&here, 1), 0);
  EXPECT_EQ(cached.draft_seconds(std::span(&there, 1), 0), first);
  EXPECT_EQ(cached.num_computed(), 1);
  const double later = cached.draft_seconds(std::span(&here, 1), 1);
  EXPECT_NEAR(first, 3 * later, 1e-12);
  EXPECT_EQ(cached.draft_seconds(std::span(&here, 1), 2), later);
  EXPECT_EQ(cached.num_computed(), 2);
}

TEST(CachedStepTimes, SmallStepsAreExact) {
  const auto exact = std::make_shared<FeatureTimes>(1e-7);
  CachedStepTimes cached(exact, {}, {.sum_bits = 5, .emission_bits = 5});
  for (std::int64_t position = 0; position < 60; ++position) {
    const QueryPart part{position, 1, 1};
    EXPECT_EQ(cached.step_seconds(std::span(&part, 1)), exact->step_seconds(std::span(&part, 1)));
  }
}

TEST(CachedStepTimes, ForgetRatherThanGrow) {
  CachedStepTimes cached(std::make_shared<FeatureTimes>(1e-7), {}, {.sum_bits = 20, .most_cells = 4});
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t position = 0; position < 8; ++position) {
      const QueryPart part{1000 * position, 1, 1};
      static_cast<void>(cached.step_seconds(std::span(&part, 1)));
    }
  }
  EXPECT_EQ(cached.num_computed(), 16);
}

}  // namespace
}  // namespace baleen
