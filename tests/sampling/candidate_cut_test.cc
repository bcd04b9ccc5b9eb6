#include "sampling/candidate_cut.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "sampling/softmax_weights.h"

namespace baleen {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<TokenId> kept_ids(const std::vector<float>& logits, const CandidateCut& cut) {
  std::vector<TokenId> ids;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (keeps(cut, {logits[id], static_cast<TokenId>(id)})) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

float max_of(const std::vector<float>& logits) { return *std::max_element(logits.begin(), logits.end()); }

// The naive twin: sort everything, then walk.
std::vector<Candidate> sorted(const std::vector<float>& logits) {
  std::vector<Candidate> all;
  for (std::size_t id = 0; id < logits.size(); ++id) all.push_back({logits[id], static_cast<TokenId>(id)});
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.before(b); });
  return all;
}

double weight(float logit, float max, double temperature) {
  return std::exp((double{logit} - max) / temperature);
}

std::vector<TokenId> first_ids(const std::vector<Candidate>& order, std::size_t count) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(order[i].id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Logits with ties, wide and narrow spreads, some of them forbidden, more than one chunk of them at times.
std::vector<float> any_logits() {
  const int size = *rc::gen::inRange(1, 1200);
  const int steps = *rc::gen::element(1, 10, 1000, 1000000);
  const float spread = *rc::gen::element(0.01f, 1.0f, 10.0f, 200.0f);
  const bool forbid_some = *rc::gen::arbitrary<bool>();
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  std::vector<float> logits(static_cast<std::size_t>(size));
  for (float& logit : logits) {
    logit = spread * static_cast<float>(random() % static_cast<unsigned>(steps)) / static_cast<float>(steps);
    if (forbid_some && random() % 5 == 0) logit = -kInfinity;
  }
  logits[random() % logits.size()] = spread;
  return logits;
}

double any_temperature() { return *rc::gen::element(0.01, 0.5, 1.0, 4.0, 1e6); }

TEST(TopK, KeepsExactlyTheFirstKOfASort) {
  EXPECT_TRUE(rc::check([] {
    const auto logits = any_logits();
    const int k = *rc::gen::inRange(1, 1300);
    CutFinder finder;
    const auto kept = kept_ids(logits, finder.top_k(logits, kKeepAll, k));
    RC_ASSERT(kept == first_ids(sorted(logits), std::min(logits.size(), static_cast<std::size_t>(k))));
  }));
}

TEST(TopP, KeepsTheShortestPrefixOfASortThatHoldsTheShare) {
  EXPECT_TRUE(rc::check([] {
    const auto logits = any_logits();
    const double temperature = any_temperature();
    const double p = *rc::gen::element(1e-9, 0.1, 0.37, 0.9, 0.95, 0.999, 1 - 1e-12, 1.0);
    const float max = max_of(logits);
    const auto order = sorted(logits);
    CutFinder finder;
    const auto kept = kept_ids(logits, finder.top_p(logits, kKeepAll, max, temperature, p));
    RC_ASSERT(!kept.empty());
    RC_ASSERT(kept == first_ids(order, kept.size()));
    if (p == 1.0) RC_ASSERT(kept.size() == logits.size());
    // Sums in different orders differ by rounding, so the share is checked with that much room on both sides.
    long double total = 0, held = 0, without_last = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double w = weight(order[i].logit, max, temperature);
      total += w;
      if (i < kept.size()) held += w;
      if (i + 1 < kept.size()) without_last += w;
    }
    RC_ASSERT(held >= p * total - 1e-13 * total);
    if (p < 1.0 && kept.size() > 1) RC_ASSERT(without_last <= p * total + 1e-13 * total);
  }));
}

TEST(MinP, KeepsWhatIsLikelyEnoughBesideTheLargest) {
  EXPECT_TRUE(rc::check([] {
    const auto logits = any_logits();
    const double temperature = any_temperature();
    const double min_p = *rc::gen::element(0.0, 1e-300, 1e-9, 0.05, 0.5, 0.999, 1.0);
    const float max = max_of(logits);
    const auto cut = min_p_cut(max, temperature, min_p);
    const double lowest = double{max} + temperature * std::log(min_p);
    for (const float logit : logits) RC_ASSERT(keeps(cut, {logit, 7}) == (double{logit} >= lowest));
    if (min_p > 0) {
      RC_ASSERT(double{cut.logit} >= lowest);
      RC_ASSERT(double{std::nextafter(cut.logit, -kInfinity)} < lowest);
    }
  }));
}

TEST(Cuts, ComposeByTakingTheShorterPrefix) {
  EXPECT_TRUE(rc::check([] {
    const auto logits = any_logits();
    const float max = max_of(logits);
    CutFinder finder;
    CandidateCut cut = min_p_cut(max, 1.0, *rc::gen::element(0.0, 0.01, 0.5));
    auto before = kept_ids(logits, cut);
    cut = finder.top_k(logits, cut, *rc::gen::inRange(1, 200));
    auto after = kept_ids(logits, cut);
    RC_ASSERT(std::includes(before.begin(), before.end(), after.begin(), after.end()));
    RC_ASSERT(!after.empty());
    before = after;
    after = kept_ids(logits, finder.top_p(logits, cut, max, 1.0, *rc::gen::element(1e-6, 0.5, 0.9, 1.0)));
    RC_ASSERT(std::includes(before.begin(), before.end(), after.begin(), after.end()));
    RC_ASSERT(!after.empty());
  }));
}

TEST(TopP, CountsTheShareOfWhatTopKLeft) {
  // Of probabilities 0.4, 0.3, 0.2, 0.1, top-k 2 leaves 4/7 and 3/7: one token holds 0.55 of that, but not of
  // all.
  const std::vector<float> logits{std::log(0.3f), std::log(0.4f), std::log(0.1f), std::log(0.2f)};
  CutFinder finder;
  const auto two = finder.top_k(logits, kKeepAll, 2);
  EXPECT_EQ(kept_ids(logits, two), (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(kept_ids(logits, finder.top_p(logits, two, logits[1], 1.0, 0.55)), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept_ids(logits, finder.top_p(logits, kKeepAll, logits[1], 1.0, 0.55)),
            (std::vector<TokenId>{0, 1}));
}

TEST(TopP, ShareThatATokenReachesExactlyEndsThere) {
  const std::vector<float> logits(8, 2.5f);  // eight weights of exactly 1
  CutFinder finder;
  EXPECT_EQ(kept_ids(logits, finder.top_p(logits, kKeepAll, 2.5f, 1.0, 0.5)),
            (std::vector<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(kept_ids(logits, finder.top_p(logits, kKeepAll, 2.5f, 1.0, 0.51)),
            (std::vector<TokenId>{0, 1, 2, 3, 4}));
}

TEST(Cuts, LeaveAVocabularyOfOneAlone) {
  const std::vector<float> logits{-3.0f};
  CutFinder finder;
  EXPECT_EQ(kept_ids(logits, finder.top_k(logits, kKeepAll, 1)).size(), 1u);
  EXPECT_EQ(kept_ids(logits, finder.top_p(logits, kKeepAll, -3.0f, 1.0, 1e-9)).size(), 1u);
  EXPECT_EQ(kept_ids(logits, min_p_cut(-3.0f, 1.0, 1.0)).size(), 1u);
}

TEST(TopK, RisingRowIsNotASpecialCase) {
  std::vector<float> logits(5000);
  std::iota(logits.begin(), logits.end(), 0.0f);
  CutFinder finder;
  EXPECT_EQ(kept_ids(logits, finder.top_k(logits, kKeepAll, 3)), (std::vector<TokenId>{4997, 4998, 4999}));
}

}  // namespace
}  // namespace baleen
