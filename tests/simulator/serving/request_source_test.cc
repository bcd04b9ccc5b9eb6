// What is asked: distributions, sessions, traces, acceptance.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>

#include "base/error.h"
#include "simulator/serving/acceptance.h"
#include "simulator/serving/generated_requests.h"
#include "simulator/serving/trace.h"

namespace baleen {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<ServingRequest> all_of(const GeneratedRequestsOptions& options) {
  const auto workload = make_generated_requests(options);
  std::vector<ServingRequest> requests;
  while (const auto request = workload->next()) requests.push_back(*request);
  return requests;
}

struct Moments {
  double mean = 0, variation = 0;
};

Moments moments_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size())) / mean};
}

constexpr std::int64_t kMany = 40'000;

std::vector<double> gaps_of(double burstiness) {
  std::vector<double> gaps;
  double last = 0;
  for (const ServingRequest& r : all_of({.num_requests = kMany, .rate = 20, .burstiness = burstiness})) {
    gaps.push_back(r.arrival - last);
    last = r.arrival;
  }
  return gaps;
}

TEST(Arrivals, HaveTheRateAndTheBurstiness) {
  for (const double burstiness : {0.25, 0.7, 1.0, 4.0}) {
    SCOPED_TRACE(burstiness);
    const Moments moments = moments_of(gaps_of(burstiness));
    const double variation = 1 / std::sqrt(burstiness);
    // Five standard errors of the mean.
    EXPECT_NEAR(moments.mean, 0.05, 5 * 0.05 * variation / std::sqrt(kMany));
    EXPECT_NEAR(moments.variation, variation, 0.06 * variation);
  }
}

TEST(Lengths, HaveTheMeanAndTheVariation) {
  std::vector<double> prompts, outputs;
  const GeneratedRequestsOptions options{
      .num_requests = kMany, .rate = 1, .prompt = {.mean = 1000, .variation = 0.5}, .output = {.mean = 200}};
  for (const ServingRequest& request : all_of(options)) {
    prompts.push_back(static_cast<double>(request.prompt_tokens));
    EXPECT_EQ(request.output_tokens, 200);
    EXPECT_GE(request.prompt_tokens, 1);
  }
  const Moments moments = moments_of(prompts);
  EXPECT_NEAR(moments.mean, 1000, 5 * 500 / std::sqrt(kMany));
  EXPECT_NEAR(moments.variation, 0.5, 0.02);
}

TEST(Lengths, OfAListComeInTurn) {
  const auto requests = all_of({.num_requests = 5, .rate = 1, .lengths = {{10, 1}, {20, 2}}});
  EXPECT_EQ(requests[2].prompt_tokens, 10);
  EXPECT_EQ(requests[3].output_tokens, 2);
}

TEST(Sessions, GoOnWithWhatWasSaid) {
  const auto workload = make_generated_requests({.num_requests = 3,
                                                 .clients = 1,
                                                 .prompt = {.mean = 30},
                                                 .output = {.mean = 20},
                                                 .family_tokens = 100,
                                                 .turns = 2});
  const auto first = workload->next();
  EXPECT_FALSE(workload->next()) << "one client";
  EXPECT_EQ(first->prompt_tokens, 130);
  const auto second = workload->after(*first, 5);
  EXPECT_EQ(second->prompt_tokens, 130 + 20 + 30);
  EXPECT_EQ(second->stream.own, first->stream.own);
  EXPECT_EQ(second->arrival, 5);
  const auto next_session = workload->after(*second, 7);
  EXPECT_EQ(next_session->prompt_tokens, 130);
  EXPECT_NE(next_session->stream.own, first->stream.own);
  EXPECT_FALSE(workload->after(*next_session, 9)) << "three requests are all";
}

TEST(Sessions, EndBeforeThePromptIsTooLong) {
  const auto workload = make_generated_requests({.num_requests = 10,
                                                 .rate = 1,
                                                 .prompt = {.mean = 30},
                                                 .output = {.mean = 20},
                                                 .turns = 5,
                                                 .most_prompt_tokens = 100});
  const auto first = workload->next();
  const auto second = workload->after(*first, 100);
  EXPECT_EQ(second->prompt_tokens, 80);
  EXPECT_FALSE(workload->after(*second, 101));
}

TEST(GeneratedRequests, RefusesNonsense) {
  const auto error = [](const GeneratedRequestsOptions& options) {
    return error_of([&] { static_cast<void>(make_generated_requests(options)); });
  };
  EXPECT_EQ(error({.rate = -3}), "rate: -3 requests a second; give a positive number");
  EXPECT_NE(error({.rate = std::nan("")}), "");
  EXPECT_NE(error({.rate = 1, .burstiness = 0}), "");
  EXPECT_NE(error({.num_requests = 0}), "");
  EXPECT_NE(error({.clients = 0}), "");
  EXPECT_NE(error({.prompt = {.mean = 0.5}}), "");
  EXPECT_NE(error({.prompt = {.mean = 1e12}}), "");
  EXPECT_NE(error({.output = {.mean = 5, .variation = -1}}), "");
  EXPECT_NE(error({.turns = 0}), "");
  EXPECT_NE(error({.think_seconds = -1}), "");
  EXPECT_EQ(error({.rate = 1}), "");
}

std::vector<ServingRequest> parse(const std::string& text) {
  std::istringstream lines(text);
  return parse_trace(lines, "t");
}

TEST(Trace, OfBothFormsIsTheSame) {
  const auto csv = parse(
      "arrival, prompt_tokens, output_tokens, session, family, family_tokens\r\n"
      "0,10,5,a,tools,8\n"
      "\n"
      "0.5,20,6,a,tools,8\n"
      "1e0,30,7,,,\n");
  const auto json = parse(
      R"({"arrival": 0, "prompt_tokens": 10, "output_tokens": 5, "session": "a", "family": "tools", "family_tokens": 8}
{"arrival": 0.5, "prompt_tokens": 20, "output_tokens": 6, "session": "a", "family": "tools", "family_tokens": 8, "model": ["any"]}
{"arrival": 1, "prompt_tokens": 30, "output_tokens": 7}
)");
  ASSERT_EQ(csv.size(), 3);
  ASSERT_EQ(json.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(csv[i].arrival, json[i].arrival);
    EXPECT_EQ(csv[i].prompt_tokens, json[i].prompt_tokens);
    EXPECT_EQ(csv[i].output_tokens, json[i].output_tokens);
    EXPECT_EQ(csv[i].stream.own, json[i].stream.own);
    EXPECT_EQ(csv[i].stream.family, json[i].stream.family);
    EXPECT_EQ(csv[i].stream.family_tokens, json[i].stream.family_tokens);
  }
  EXPECT_EQ(csv[0].stream.own, csv[1].stream.own);
  EXPECT_NE(csv[0].stream.own, csv[2].stream.own);
  EXPECT_EQ(csv[2].stream.family_tokens, 0);
}

TEST(Trace, ComplainsWithTheLine) {
  const auto error = [](const std::string& text) {
    return error_of([&] { static_cast<void>(parse(text)); });
  };
  const std::string header = "arrival,prompt_tokens,output_tokens\n";
  EXPECT_EQ(error(""), "t: the trace has no requests");
  EXPECT_EQ(error(header), "t: the trace has no requests");
  EXPECT_EQ(error("when,prompt_tokens\n"),
            "t:1: expected a header of the columns "
            "arrival,prompt_tokens,output_tokens,session,family,family_tokens; found \"when\"");
  EXPECT_EQ(error("arrival,prompt_tokens\n"), "t:1: the header lacks the column output_tokens");
  EXPECT_EQ(error(header + "0,10\n"), "t:2: expected 3 values as in the header; found 2");
  EXPECT_EQ(error(header + "0,10,5\n0.5,ten,5\n"),
            "t:3: prompt_tokens: expected a whole number from 1 to 1e+09; found \"ten\"");
  EXPECT_EQ(error(header + "-1,10,5\n"),
            "t:2: arrival: expected a number of seconds from 0 to 1e+10; found \"-1\"");
  EXPECT_EQ(error(header + "0,10,0\n"),
            "t:2: output_tokens: expected a whole number from 1 to 1e+09; found \"0\"");
  EXPECT_EQ(error(header + "0,1.5,1\n"),
            "t:2: prompt_tokens: expected a whole number from 1 to 1e+09; found \"1.5\"");
  EXPECT_EQ(error(header + "nan,1,1\n"),
            "t:2: arrival: expected a number of seconds from 0 to 1e+10; found \"nan\"");
  EXPECT_EQ(error(header + "5,1,1\n4,1,1\n"),
            "t:3: arrival: expected 5 or later, as the line before; found 4; sort the trace by arrival");
  EXPECT_EQ(
      error("{\"arrival\": 0,\n"),
      "t:1: expected a JSON object: byte 14: while parsing object key - unexpected end of input; expected "
      "string literal");
  EXPECT_EQ(error("{\"arrival\": [0]}\n"), "t:1: arrival: expected a number or a string; found array");
  EXPECT_EQ(error("{\"arrival\": 0, \"prompt_tokens\": 4}\n"),
            "t:1: output_tokens: expected a whole number from 1 to 1e+09; found nothing");
  EXPECT_EQ(error("arrival,prompt_tokens,output_tokens,family_tokens\n0,1,1,5\n"),
            "t:2: family_tokens without a family");
  EXPECT_NE(error_of([] { static_cast<void>(load_trace("no/such/file")); }), "");
  EXPECT_NE(error_of([] { static_cast<void>(make_trace_requests({}, 0)); }), "");
}

TEST(Acceptance, FollowsTheChain) {
  const Acceptance acceptance = Acceptance::of_chain({0.8, 0.5}, 3);
  std::vector<double> counts(4);
  for (std::int64_t step = 0; step < kMany; ++step) {
    ++counts[static_cast<std::size_t>(acceptance.accepted(step / 100, step % 100, 3))];
  }
  const std::vector<double> want = {0.2, 0.8 * 0.5, 0.8 * 0.5 * 0.5, 0.8 * 0.5 * 0.5};
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = 5 * std::sqrt(want[i] * (1 - want[i]) / kMany);
    EXPECT_NEAR(counts[i] / kMany, want[i], error) << i;
  }
  // A longer chain begins as a shorter one.
  for (std::int64_t step = 0; step < 100; ++step) {
    EXPECT_EQ(std::min<std::int64_t>(acceptance.accepted(1, step, 3), 1), acceptance.accepted(1, step, 1));
  }
}

TEST(Acceptance, AsRecorded) {
  const Acceptance acceptance = Acceptance::recorded({0, 2, 2, 5}, 3);
  std::vector<double> counts(4);
  for (std::int64_t step = 0; step < kMany; ++step)
    ++counts[static_cast<std::size_t>(acceptance.accepted(0, step, 3))];
  EXPECT_NEAR(counts[0] / kMany, 0.25, 0.02);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2] / kMany, 0.5, 0.02);
  EXPECT_NEAR(counts[3] / kMany, 0.25, 0.02) << "at most as many as drafted";
}

TEST(Acceptance, RefusesNonsense) {
  EXPECT_NE(error_of([] { static_cast<void>(Acceptance::of_chain({1.5}, 0)); }), "");
  EXPECT_NE(error_of([] { static_cast<void>(Acceptance::of_chain({-0.1}, 0)); }), "");
  EXPECT_NE(error_of([] { static_cast<void>(Acceptance::recorded({}, 0)); }), "");
  EXPECT_NE(error_of([] { static_cast<void>(Acceptance::recorded({-1}, 0)); }), "");
}

}  // namespace
}  // namespace baleen
