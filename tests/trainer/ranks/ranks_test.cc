// Ranks that are threads, with gradients that each makes up.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "comm/local_communicator.h"
#include "tests/support/random_weights.h"
#include "trainer/optimiser/optimiser.h"
#include "trainer/ranks/sum_tree.h"
#include "trainer/ranks/training_ranks.h"

namespace baleen {
namespace {

/// body(ranks) on a thread for each of `count` ranks.
void on_ranks(std::int64_t count, const std::function<void(const TrainingRanks&)>& body) {
  LocalExchange exchange(std::chrono::seconds(60));
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      LocalCommunicator communicator(exchange);
      body(TrainingRanks(communicator, RankGroup::strided(0, 1, count, rank)));
    });
  }
}

/// Matrices, norms and a routing bias.
std::vector<TensorSpec> table() {
  return {{.name = "layers.0.attn.wq_a", .shape = {24, 40}},
          {.name = "layers.0.attn_norm.weight", .shape = {40}, .kind = TensorKind::kNorm},
          {.name = "embed.weight", .shape = {17, 40}},
          {.name = "layers.0.ffn.gate.bias", .shape = {6}, .kind = TensorKind::kRoutingBias},
          {.name = "layers.0.attn.wkv", .shape = {8, 40}},
          {.name = "norm.weight", .shape = {40}, .kind = TensorKind::kNorm}};
}

TrainConfig small_config() {
  return parse_train_config(
      "[run]\nfolder = \"run\"\nsteps = 1\n[model]\npreset = \"tiny-flash\"\n[data]\nfolder = \"data\"\n"
      "sequence_length = 32\nbatch_rows = 4\n",
      "test.toml", "/tmp");
}

TEST(TrainingRanks, SharesAreAllPartsInOrder) {
  for (const std::int64_t count : {0, 1, 3, 7, 8}) {
    std::vector<std::int64_t> ends(4);
    on_ranks(4, [&](const TrainingRanks& ranks) {
      const TrainingRanks::Range share = ranks.share_of(count);
      EXPECT_LE(share.begin, share.end);
      EXPECT_TRUE(!ranks.is_first() || share.begin == 0);
      ends[static_cast<std::size_t>(ranks.rank())] = share.end;
    });
    EXPECT_TRUE(std::ranges::is_sorted(ends));
    EXPECT_EQ(ends.back(), count);
  }
}

TEST(TrainingRanks, GatherRowsOfUnequalShares) {
  on_ranks(3, [](const TrainingRanks& ranks) {
    std::vector<double> values(7 * 2, -1);
    const TrainingRanks::Range mine = ranks.share_of(7);
    for (std::int64_t i = 2 * mine.begin; i < 2 * mine.end; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<double>(i);
    ranks.gather(7, values);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<double>(i));
    EXPECT_TRUE(ranks.any(ranks.rank() == 1));
    EXPECT_FALSE(ranks.any(false));
    std::vector<double> sums{static_cast<double>(ranks.rank()), 1};
    ranks.add_to_all(sums);
    EXPECT_EQ(sums, (std::vector<double>{3, 3}));
  });
}

TEST(TensorHomes, AreEvenAndTheSameForAll) {
  const TrainConfig config = small_config();
  const Parameters<float> weights(config.model);
  for (const std::int64_t num_ranks : {1, 2, 5}) {
    const TensorHomes homes = Optimiser(config, weights, 0, num_ranks).homes();
    EXPECT_EQ(Optimiser(config, weights, num_ranks - 1, num_ranks).homes().of_tensor, homes.of_tensor);
    const std::vector<ParameterGroup> groups = Optimiser(config, weights).groups();
    std::vector<double> flops(static_cast<std::size_t>(num_ranks));
    double largest = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const bool is_updated = groups[i].rule == UpdateRule::kMuon || groups[i].rule == UpdateRule::kAdamW;
      EXPECT_EQ(homes.of_tensor[i] >= 0, is_updated) << weights.spec(i).name;
      if (!is_updated) continue;
      flops[static_cast<std::size_t>(homes.of_tensor[i])] += update_flops(weights.spec(i), groups[i]);
      largest = std::max(largest, update_flops(weights.spec(i), groups[i]));
    }
    const auto [least, most] = std::ranges::minmax(flops);
    EXPECT_LE(most - least, largest);
  }
}

/// Gradients that depend on the rank and the tensor.
Parameters<float> gradients_of(std::int64_t rank) {
  Parameters<float> gradients(table());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::vector<float> values = test::random_values(
        gradients.values(i).size(), static_cast<std::uint32_t>(10 * i) + static_cast<std::uint32_t>(rank));
    std::ranges::copy(values, gradients.values(i).begin());
  }
  return gradients;
}

TEST(TrainingRanks, GradientsAreSummedAtHomeAndWeightsComeBack) {
  const TrainConfig config = small_config();
  for (const std::int64_t count : {1, 2, 3, 4, 7}) {
    Parameters<float> want(table());
    SumTree<Parameters<float>> tree;
    const auto add = [](Parameters<float>& sum, const Parameters<float>& value) { sum.add(value); };
    for (std::int64_t rank = 0; rank < count; ++rank) tree.push(gradients_of(rank), add);
    want = tree.take(add);
    on_ranks(count, [&](const TrainingRanks& ranks) {
      Parameters<float> gradients = gradients_of(ranks.rank());
      const Optimiser optimiser(config, gradients, ranks.rank(), ranks.size());
      ranks.sum_at_homes(optimiser.homes(), gradients);
      for (const std::size_t i : optimiser.tensors())
        EXPECT_TRUE(std::ranges::equal(gradients.values(i), want.values(i))) << want.spec(i).name;
      ranks.share_from_homes(optimiser.homes(), gradients);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (optimiser.homes().of_tensor[i] < 0) continue;
        EXPECT_TRUE(std::ranges::equal(gradients.values(i), want.values(i))) << want.spec(i).name;
      }
    });
  }
}

TEST(TrainingRanks, ATensorLongerThanAMessageTravelsWhole) {
  on_ranks(2, [](const TrainingRanks& ranks) {
    Parameters<float> gradients({{.name = "embed.weight", .shape = {17, 1 << 20}}});  // 68 MiB
    const std::span<float> values = gradients.values(0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    const TensorHomes homes{.of_tensor = {1}, .of_rank = {{}, {0}}};
    ranks.sum_at_homes(homes, gradients);
    ranks.share_from_homes(homes, gradients);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], 2 * static_cast<float>(i % 1000)) << i;
  });
}

TEST(TrainingRanks, AnArrayIsBroughtToTheFirst) {
  on_ranks(3, [](const TrainingRanks& ranks) {
    std::vector<float> values(100);
    if (ranks.rank() == 2) std::iota(values.begin(), values.end(), 1.0F);
    ranks.bring_to_first(2, values);
    EXPECT_EQ(values[99], ranks.rank() == 1 ? 0.0F : 100.0F);
    ranks.bring_to_first(0, values);
  });
}

}  // namespace
}  // namespace baleen
