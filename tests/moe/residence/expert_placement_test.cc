// Which experts lie where: spread, improvements by use, and the moving average of use.
#include "moe/residence/expert_placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace baleen {
namespace {

std::int64_t at_level(const ExpertPlacement& placement, std::int64_t block, ExpertLevel level) {
  std::int64_t count = 0;
  for (std::int64_t expert = 0; expert < placement.counts().num_experts; ++expert)
    count += placement.level(block, expert) == level ? 1 : 0;
  return count;
}
std::int64_t on_host(const ExpertPlacement& placement, std::int64_t block) {
  return at_level(placement, block, ExpertLevel::kHost);
}

TEST(ExpertPlacement, IsSpreadEvenlyOverBlocks) {
  for (const std::int64_t num_on_host : {0, 1, 7, 30, 44}) {
    const ExpertPlacement placement({4, 11, num_on_host});
    std::int64_t sum = 0;
    for (std::int64_t block = 0; block < 4; ++block) {
      EXPECT_GE(on_host(placement, block), num_on_host / 4);
      EXPECT_LE(on_host(placement, block), (num_on_host + 3) / 4);
      sum += on_host(placement, block);
    }
    EXPECT_EQ(sum, num_on_host);
    EXPECT_EQ(placement.counts().num_on_device(), 44 - num_on_host);
  }
}

TEST(ExpertPlacement, ThreeLevelsAreSpreadEvenlyToo) {
  for (std::int64_t num_on_host = 0; num_on_host <= 44; ++num_on_host) {
    for (std::int64_t num_on_disk = 0; num_on_host + num_on_disk <= 44; ++num_on_disk) {
      const ExpertCounts counts{4, 11, num_on_host, num_on_disk};
      const ExpertPlacement placement(counts);
      std::int64_t host = 0, disk = 0;
      for (std::int64_t block = 0; block < 4; ++block) {
        const std::int64_t away = 11 - at_level(placement, block, ExpertLevel::kDevice);
        EXPECT_GE(away, counts.num_away() / 4);
        EXPECT_LE(away, counts.most_away_of_a_block());
        host += on_host(placement, block);
        disk += at_level(placement, block, ExpertLevel::kDisk);
      }
      EXPECT_EQ(host, num_on_host);
      EXPECT_EQ(disk, num_on_disk);
    }
  }
}

TEST(ExpertPlacement, FromDiskToTheGpuThenToTheHost) {
  const ExpertPlacement placement({1, 6, 2, 2});  // 2 and 3 on the host, 4 and 5 on disk
  EXPECT_EQ(placement.level(0, 3), ExpertLevel::kHost);
  EXPECT_EQ(placement.level(0, 4), ExpertLevel::kDisk);
  // The most used one comes to the GPU, the other one of the disk to the host; each is in one swap alone.
  EXPECT_EQ(placement.improvements(std::vector<std::vector<double>>{{90, 5, 30, 10, 60, 80}}, 10),
            (std::vector<ExpertSwap>{{0, 5, 1}, {0, 4, 3}}));
}

TEST(ExpertPlacement, ReadsFromDiskWeighMore) {
  const ExpertPlacement placement({2, 3, 2, 2});  // of both blocks 1 on the host, 2 on disk
  EXPECT_EQ(placement.improvements(std::vector<std::vector<double>>{{0, 50, 0}, {90, 0, 20}}, 10),
            (std::vector<ExpertSwap>{{1, 2, 1}, {0, 1, 0}}));
}

TEST(ExpertSlots, AsManyAsATokenFindsAwayAndOneForAGuess) {
  // 6 of 256 experts; 5.8%, 14% and 52% away of 43 blocks.
  EXPECT_EQ(suitable_slots({.num_blocks = 43, .num_experts = 256, .num_on_host = 638, .num_selected = 6}), 2);
  EXPECT_EQ(suitable_slots({.num_blocks = 43, .num_experts = 256, .num_on_host = 1547, .num_selected = 6}),
            2);
  EXPECT_EQ(suitable_slots({.num_blocks = 43, .num_experts = 256, .num_on_host = 5724, .num_selected = 6}),
            5);
  EXPECT_EQ(suitable_slots({.num_blocks = 43, .num_experts = 256, .num_selected = 6}), 0);
  EXPECT_EQ(suitable_slots({.num_blocks = 2, .num_experts = 8, .num_on_host = 1, .num_selected = 6}), 1);
}

TEST(ExpertFetches, GrowWithRowsToAllThatAreAway) {
  const ExpertCounts counts{.num_blocks = 43, .num_experts = 256, .num_on_host = 2 * 43, .num_selected = 6};
  EXPECT_NEAR(expected_fetches(counts, 1), 2 * 6.0 / 256, 1e-12);
  EXPECT_NEAR(expected_fetches(counts, 16), 2 * (1 - std::pow(250.0 / 256, 16)), 1e-12);
  EXPECT_NEAR(expected_fetches(counts, 100'000), 2, 1e-9);
  EXPECT_EQ(expected_fetches({.num_blocks = 43, .num_experts = 256, .num_selected = 6}, 16), 0);
}

TEST(ExpertPlacement, TheMostUsedOfTheHostReplacesTheLeastUsedOfTheGpu) {
  const ExpertPlacement placement({2, 6, 4});  // experts 4 and 5 of both blocks on the host
  const std::vector<std::vector<double>> use{{50, 0, 50, 10, 100, 5}, {50, 50, 50, 50, 49, 51}};
  EXPECT_EQ(placement.improvements(use, 10), (std::vector<ExpertSwap>{{0, 4, 1}}));
  EXPECT_TRUE(placement.improvements(use, 0).empty());
}

TEST(ExpertPlacement, TheLargestGainsComeFirst) {
  const ExpertPlacement placement({2, 6, 4});
  const std::vector<std::vector<double>> use{{0, 0, 90, 90, 20, 30}, {0, 0, 90, 90, 80, 10}};
  EXPECT_EQ(placement.improvements(use, 2), (std::vector<ExpertSwap>{{1, 4, 0}, {0, 5, 0}}));
}

/// Any use: repeated, improvements come to an end, keep the number of experts on the host, and leave no
/// expert there that is clearly more used than one on the GPU.
TEST(ExpertPlacement, ImprovementsComeToAnEnd) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    ExpertPlacement placement({3, 16, 13});
    std::vector<std::vector<double>> use(3, std::vector<double>(16));
    for (auto& block : use) {
      for (double& value : block) value = static_cast<double>(random() % 1000);
    }
    int num_rounds = 0;
    for (auto swaps = placement.improvements(use, 2); !swaps.empty();
         swaps = placement.improvements(use, 2)) {
      for (const ExpertSwap& swap : swaps) placement.apply(swap);
      ASSERT_LT(++num_rounds, 100);
    }
    for (std::size_t block = 0; block < 3; ++block) {
      EXPECT_EQ(on_host(placement, static_cast<std::int64_t>(block)), block == 2 ? 5 : 4);
      for (std::int64_t host = 0; host < 16; ++host) {
        for (std::int64_t device = 0; device < 16; ++device) {
          const auto b = static_cast<std::int64_t>(block);
          if (placement.on_device(b, host) || !placement.on_device(b, device)) continue;
          const double more = use[block][static_cast<std::size_t>(host)];
          const double less = use[block][static_cast<std::size_t>(device)];
          EXPECT_FALSE(ExpertPlacement::is_clearly_more(more, less));
        }
      }
    }
  }
}

/// Of experts that are used alike, none moves by chance; one that is used much is found within a few looks.
TEST(ExpertPlacement, ChanceMovesNothing) {
  const ExpertCounts counts{.num_blocks = 43, .num_experts = 256, .num_on_host = 10'700, .num_selected = 6};
  const ExpertPlacement placement(counts);
  std::mt19937 random(5);
  for (const double mean : {0.4, 4.0, 20.0}) {
    std::poisson_distribution<int> tokens(mean);
    std::vector<std::vector<double>> use(43, std::vector<double>(256));
    for (auto& block : use) {
      for (double& value : block) value = tokens(random);
    }
    EXPECT_LE(placement.improvements(use, 1000).size(), 2U) << mean;
  }
  EXPECT_TRUE(ExpertPlacement::is_clearly_more(17, 0));
  EXPECT_TRUE(ExpertPlacement::is_clearly_more(60, 20));
  EXPECT_FALSE(ExpertPlacement::is_clearly_more(12, 0));
  EXPECT_FALSE(ExpertPlacement::is_clearly_more(40, 20));
  EXPECT_FALSE(ExpertPlacement::is_clearly_more(1200, 1000)) << "less than a quarter more";
  EXPECT_FALSE(ExpertPlacement::is_clearly_more(0, 0));
}

TEST(ExpertUse, OlderCountsWeighLess) {
  ExpertUse use;
  use.update({{10, 0}});
  EXPECT_EQ(use.recent()[0], (std::vector<double>{10, 0}));
  use.update({{10, 4}});
  EXPECT_EQ(use.recent()[0], (std::vector<double>{10 * ExpertUse::kKept, 4}));
}

}  // namespace
}  // namespace baleen
