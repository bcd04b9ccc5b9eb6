// The DRY penalty against its definition written out, on random histories, and through the sampler.
#include "sampling/dry_penalty.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "sampling/sampler.h"

namespace baleen {
namespace {

constexpr std::int32_t kVocab = 12;

/// What llama.cpp subtracts from each logit, by trying every place of the history.
std::vector<double> plain_penalties(const DryParams& params, std::vector<TokenId> tokens) {
  std::vector<double> penalties(kVocab, 0.0);
  if (params.multiplier == 0 || params.penalty_last_n == 0) return penalties;
  if (params.penalty_last_n > 0 && std::ssize(tokens) > params.penalty_last_n)
    tokens.erase(tokens.begin(), tokens.end() - params.penalty_last_n);
  const std::int64_t size = std::ssize(tokens);
  if (size <= params.allowed_length) return penalties;
  const auto at = [&](std::int64_t i) { return tokens[static_cast<std::size_t>(i)]; };
  const SequenceBreakers none, &breakers = params.breakers ? *params.breakers : none;

  // The latest place where a breaker begins bounds what counts as repeated.
  std::int64_t limit = size;
  for (std::int64_t place = size - 1; place >= 0 && limit == size; --place) {
    std::int64_t longest = -1;
    const auto found = breakers.find(at(place));
    if (found == breakers.end()) continue;
    for (const std::vector<TokenId>& rest : found->second) {
      bool fits = place + std::ssize(rest) < size;
      for (std::int64_t i = 0; fits && i < std::ssize(rest); ++i)
        fits = at(place + 1 + i) == rest[static_cast<std::size_t>(i)];
      if (fits) longest = std::max(longest, std::ssize(rest));
    }
    if (longest >= 0) limit = size - 1 - place - longest;
  }
  if (limit < params.allowed_length) return penalties;

  std::map<TokenId, std::int64_t> repeats;
  for (std::int64_t next = 1; next < size; ++next) {  // a token that came before, and what stood before it
    std::int64_t length = 0;
    while (length < next && length < limit && at(next - 1 - length) == at(size - 1 - length)) ++length;
    if (length < params.allowed_length) continue;
    repeats[at(next)] = std::max(repeats[at(next)], length);
  }
  for (const auto& [token, length] : repeats) {
    const auto found = breakers.find(token);
    const bool is_breaker = found != breakers.end() &&
                            std::ranges::any_of(found->second, [](const auto& rest) { return rest.empty(); });
    double exponent = static_cast<double>(length - params.allowed_length);
    if (params.base > 1.000001) exponent = std::min(exponent, std::floor(88.7228391 / std::log(params.base)));
    if (!is_breaker)
      penalties[static_cast<std::size_t>(token)] = params.multiplier * std::pow(params.base, exponent);
  }
  return penalties;
}

TEST(DryPenalty, IsWhatTheDefinitionSaysOnRandomHistories) {
  std::mt19937_64 random(11);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  int num_penalised = 0;
  for (int round = 0; round < 2000; ++round) {
    DryParams params{.multiplier = 0.5 * static_cast<double>(pick(1, 4)),
                     .base = 1 + 0.25 * static_cast<double>(pick(0, 4)),
                     .allowed_length = pick(0, 4),
                     .penalty_last_n = pick(0, 3) == 0 ? pick(0, 40) : -1};
    if (pick(0, 2) > 0) {
      auto breakers = std::make_shared<SequenceBreakers>();
      for (std::int64_t i = pick(0, 2); i >= 0; --i) {
        std::vector<TokenId> rest;
        for (std::int64_t left = pick(0, 2); left > 0; --left)
          rest.push_back(static_cast<TokenId>(pick(0, 5)));
        (*breakers)[static_cast<TokenId>(pick(0, kVocab - 1))].push_back(rest);
      }
      params.breakers = breakers;
    }
    DryPenalty penalty(params);
    std::vector<TokenId> tokens;
    const std::int64_t num_ids = pick(2, 6);
    for (std::int64_t i = 0; i < 60; ++i) {
      std::vector<float> logits(kVocab);
      for (std::size_t id = 0; id < logits.size(); ++id) logits[id] = static_cast<float>(id);
      const std::vector<float> before = logits;
      penalty.penalise(logits);
      const std::vector<double> want = plain_penalties(params, tokens);
      for (std::size_t id = 0; id < logits.size(); ++id) {
        ASSERT_EQ(logits[id], static_cast<float>(before[id] - want[id]))
            << "round " << round << ", token " << id << " after " << tokens.size();
        num_penalised += want[id] > 0 ? 1 : 0;
      }
      const auto token = static_cast<TokenId>(pick(0, 5) == 0 ? pick(0, kVocab - 1) : pick(0, num_ids - 1));
      tokens.push_back(token);
      penalty.observe({&token, 1});
    }
  }
  EXPECT_GT(num_penalised, 10'000);
}

TEST(DryPenalty, LogitsStayFiniteAndNeverStaysNever) {
  DryPenalty penalty({.multiplier = 1e6, .base = 10});
  const std::vector<TokenId> loop(4000, 3);
  penalty.observe(loop);
  std::vector<float> logits(kVocab, 1.0f);
  penalty.penalise(logits);
  EXPECT_EQ(logits[3], -std::numeric_limits<float>::max());
  EXPECT_EQ(logits[2], 1.0f);
  logits.assign(kVocab, -std::numeric_limits<float>::infinity());
  penalty.penalise(logits);
  EXPECT_TRUE(std::isinf(logits[3]));
}

TEST(Sampler, TheDryPenaltyComesAfterTheOthersAndSeesThePrompt) {
  // 1 2 3, and 1 2 again: 3 would prolong a repetition of two tokens.
  const std::vector<TokenId> prompt{1, 2, 3, 1, 2};
  const std::vector<float> logits{0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 0};
  const auto choice = [&](double multiplier) {
    Sampler sampler({.temperature = 0, .dry = {.multiplier = multiplier}}, kVocab);
    sampler.observe_prompt(prompt);
    return sampler.sample(logits).value().id;
  };
  EXPECT_EQ(choice(0), 3);
  EXPECT_EQ(choice(0.9), 3);
  EXPECT_EQ(choice(1.1), 4);
  // What was sampled counts at once: 4 was the way out of the repetition once, and it is one from then on.
  Sampler sampler({.temperature = 0, .dry = {.multiplier = 5}}, kVocab);
  sampler.observe_prompt(prompt);
  EXPECT_EQ(sampler.sample(logits).value().id, 4);
  sampler.observe_prompt(std::vector<TokenId>{1, 2});
  EXPECT_EQ(sampler.sample(logits).value().id, 0);
}

TEST(Sampler, AForcedTokenCountsAndItsDrawIsSpent) {
  const std::vector<float> logits(kVocab, 0.0f);
  Sampler plain({.seed = 4}, kVocab), forced({.seed = 4}, kVocab);
  std::vector<TokenId> want;
  for (int i = 0; i < 6; ++i) want.push_back(plain.sample(logits).value().id);
  EXPECT_EQ(forced.sample(logits).value().id, want[0]);
  EXPECT_EQ(forced.force(logits, 7).value().id, 7);
  for (int i = 2; i < 6; ++i) EXPECT_EQ(forced.sample(logits).value().id, want[static_cast<std::size_t>(i)]);

  Sampler penalised({.temperature = 0, .presence_penalty = 1, .num_logprobs = 1}, kVocab);
  const SampledToken token = penalised.force(logits, 0).value();
  EXPECT_NEAR(token.logprob.value(), -std::log(kVocab), 1e-9);
  EXPECT_EQ(token.top_logprobs.size(), 1u);
  EXPECT_EQ(penalised.sample(logits).value().id, 1);
}

TEST(SamplingParams, RefusesDryParametersThatMakeNoSense) {
  const auto first = [](const DryParams& dry) {
    const auto sentences = SamplingParams{.dry = dry}.validate(10);
    return sentences.empty() ? "" : sentences.front();
  };
  EXPECT_EQ(first({.multiplier = 0.8}), "");
  EXPECT_EQ(first({.multiplier = -1}),
            "dry_multiplier is -1; it must be 0 (no penalty) or a positive number");
  EXPECT_EQ(first({.base = 0.5}), "dry_base is 0.5; it must be a number of at least 1");
  EXPECT_EQ(first({.allowed_length = -1}), "dry_allowed_length is -1; it must be a number of tokens");
  EXPECT_NE(first({.penalty_last_n = -2}), "");
}

}  // namespace
}  // namespace baleen
