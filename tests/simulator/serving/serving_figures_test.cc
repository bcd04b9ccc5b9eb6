#include "simulator/serving/serving_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace baleen {
namespace {

RequestRecord finished(double arrival, double admitted, double first_token, double end, std::int64_t tokens) {
  return {.arrival = arrival,
          .admitted = admitted,
          .first_token = first_token,
          .finished = end,
          .prompt_tokens = 100,
          .cached_tokens = 25,
          .output_tokens = tokens,
          .end = RequestEnd::kFinished};
}

ServingResult small_result() {
  ServingResult result;
  result.requests = {finished(1, 1.5, 2, 4, 5),
                     finished(1, 1, 1.25, 1.25, 1),
                     finished(2, 2, 3, 5, 21),
                     {.arrival = 3, .finished = 3, .prompt_tokens = 7, .end = RequestEnd::kTurnedAway}};
  result.servers = {{.steps = 4, .step_tokens = 8, .busy_seconds = 2, .steps_by_batch = {0, 1, 2, 1}}};
  return result;
}

TEST(ServingFigures, OfAFewRequestsByHand) {
  const ServingFigures figures =
      figures_of(small_result(), {.first_token_seconds = 1.0, .per_output_token_seconds = 0.2});
  EXPECT_EQ(figures.requests, 4);
  EXPECT_EQ(figures.finished, 3);
  EXPECT_EQ(figures.turned_away, 1);
  EXPECT_EQ(figures.seconds, 4);
  EXPECT_EQ(figures.prompt_tokens, 300);
  EXPECT_EQ(figures.cached_tokens, 75);
  EXPECT_EQ(figures.output_tokens, 27);
  EXPECT_DOUBLE_EQ(figures.queue.mean, 0.5 / 3);
  EXPECT_EQ(figures.first_token.p50, 1);
  EXPECT_EQ(figures.end_to_end.p99, 3);
  EXPECT_DOUBLE_EQ(figures.per_output_token.p50, 0.1) << "of 0.5 and 0.1";
  EXPECT_DOUBLE_EQ(figures.per_output_token.p90, 0.5);
  EXPECT_EQ(figures.within_limits, 2) << "the first takes 0.5 s a token";
  EXPECT_DOUBLE_EQ(figures.per_second(figures.within_limits), 0.5);
}

TEST(ServingFigures, AsText) {
  const std::string text = to_text(figures_of(small_result(), {.first_token_seconds = 1.0}));
  EXPECT_NE(text.find("4 requests in 4.00 s: 3 finished, 1 turned away, 0 abandoned, 0 refused"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("goodput       0.75 requests/s: 75.0% keep first token 1000 ms"), std::string::npos)
      << text;
  EXPECT_NE(text.find("25.0% of them found in the cache"), std::string::npos) << text;
  EXPECT_NE(text.find("server: 4 steps of 2.0 sequences and 2.0 tokens in the mean, busy 50.0%"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("batch 2-3          75.0% of steps"), std::string::npos) << text;
}

TEST(ServingFigures, AsJson) {
  const auto json = to_json(figures_of(small_result(), {}));
  EXPECT_EQ(json.at("finished"), 3);
  EXPECT_DOUBLE_EQ(json.at("time_to_first_token").at("p50"), 1);
  EXPECT_DOUBLE_EQ(json.at("cache_hit_rate"), 0.25);
  EXPECT_EQ(json.at("server").at("steps_by_sequences").at(2), 2);
}

TEST(ServingFigures, OfNothing) {
  const ServingFigures figures = figures_of({}, {});
  EXPECT_EQ(figures.seconds, 0);
  EXPECT_EQ(figures.first_token.p99, 0);
  EXPECT_NE(to_text(figures).find("0 requests"), std::string::npos);
  EXPECT_TRUE(std::isfinite(to_json(figures).at("cache_hit_rate").get<double>()));
}

TEST(TimeHistogram, QuantilesAreOffByOnePartIn256) {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> times(-4, 2);
  TimeHistogram histogram;
  std::vector<double> values;
  double sum = 0;
  for (int i = 0; i < 30'000; ++i) {
    const double value = times(random);
    const int repetitions = i % 3 + 1;
    histogram.add(value, repetitions);
    for (int r = 0; r < repetitions; ++r) values.push_back(value);
    sum += value * repetitions;
  }
  std::ranges::sort(values);
  EXPECT_EQ(histogram.count(), std::ssize(values));
  EXPECT_NEAR(histogram.mean(), sum / static_cast<double>(values.size()), 1e-9);
  for (const double quantile : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(values.size())));
    EXPECT_NEAR(histogram.quantile(quantile), values[rank - 1], values[rank - 1] / 256) << quantile;
  }
}

TEST(TimeHistogram, TakesWhatItCannotTellApart) {
  TimeHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0);
  histogram.add(0);
  histogram.add(1e300);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_LT(histogram.quantile(0.5), 1e-8);
}

}  // namespace
}  // namespace baleen
