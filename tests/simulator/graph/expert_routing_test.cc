// Experts that tokens choose unevenly, against tokens that choose them.

#include "simulator/graph/expert_routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace baleen {
namespace {

TEST(ExpertRouting, EvenlyInClosedForm) {
  const ExpertRouting routing(256, 6, 0);
  for (const double tokens : {1.0, 2.0, 64.0, 8192.0})
    EXPECT_NEAR(routing.distinct(tokens), 256 * (1 - std::pow(1 - 6.0 / 256, tokens)), 1e-9) << tokens;
  EXPECT_NEAR(routing.distinct(240, 256, 1), 16 * 6.0 / 256, 1e-12);
  EXPECT_NEAR(routing.distinct(239.5, 256, 1), 16.5 * 6.0 / 256, 1e-12) << "half an expert";
}

TEST(ExpertRouting, EveryTokenHasAsManyExperts) {
  for (const double zipf : {0.0, 0.5, 1.0, 3.0}) {
    const ExpertRouting routing(64, 8, zipf);
    double sum = 0;
    for (std::int64_t rank = 0; rank < 64; ++rank) {
      sum += routing.share(rank);
      EXPECT_LE(routing.share(rank), routing.share(std::max<std::int64_t>(rank - 1, 0)));
    }
    EXPECT_NEAR(sum, 8, 1e-6) << zipf;
  }
  EXPECT_NEAR(ExpertRouting(4, 4, 2).distinct(1), 4, 1e-12) << "all of them";
}

/// Against tokens that draw one expert after the other without putting any back.
TEST(ExpertRouting, AsTokensThatDraw) {
  constexpr std::int64_t kExperts = 32, kChosen = 4, kTokens = 5, kBatches = 20'000;
  const ExpertRouting routing(kExperts, kChosen, 1);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform;
  double all = 0, rare = 0;
  for (std::int64_t batch = 0; batch < kBatches; ++batch) {
    std::set<std::int64_t> seen;
    for (std::int64_t token = 0; token < kTokens; ++token) {
      std::set<std::int64_t> own;
      while (std::ssize(own) < kChosen) {
        double total = 0;
        for (std::int64_t rank = 0; rank < kExperts; ++rank)
          if (!own.contains(rank)) total += 1.0 / static_cast<double>(rank + 1);
        double place = uniform(random) * total;
        for (std::int64_t rank = 0; rank < kExperts; ++rank) {
          if (own.contains(rank)) continue;
          place -= 1.0 / static_cast<double>(rank + 1);
          if (place <= 0 || rank == kExperts - 1) {
            own.insert(rank);
            break;
          }
        }
      }
      seen.insert(own.begin(), own.end());
    }
    for (const std::int64_t rank : seen) (rank < 16 ? all : rare) += 1;
  }
  const double measured_rare = rare / kBatches, measured = (all + rare) / kBatches;
  EXPECT_NEAR(routing.distinct(kTokens), measured, 0.03 * measured);
  EXPECT_NEAR(routing.distinct(16, kExperts, kTokens), measured_rare, 0.05 * measured_rare);
}

}  // namespace
}  // namespace baleen
