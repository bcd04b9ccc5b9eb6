// The store over the processor's memory: every expert's bytes at its place, whatever was swapped.
#include "moe/residence/expert_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "model/device_weights.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "tests/moe/residence/asked_rows.h"

namespace baleen {
namespace {

class ExpertStoreOf : public testing::TestWithParam<const char*> {
 protected:
  ExpertStoreOf()
      : pool_(1),
        weights_(made_up_weights(preset_config(GetParam()), 1, pool_, MadeUpBytes::kOfEachTensor)) {}

  /// Whether `block_bytes` is the expert's block.
  [[nodiscard]] bool has_bytes(const ExpertBlock& shape, const std::byte* block_bytes, std::int64_t block,
                               std::int64_t expert) const {
    const auto& from = weights_->tree().block(block).moe.routed[static_cast<std::size_t>(expert)];
    return std::ranges::all_of(shape.pieces(from), [&](const ExpertBlock::Piece& piece) {
      return piece.bytes.empty() ||
             std::memcmp(block_bytes + piece.offset, piece.bytes.data(), piece.bytes.size()) == 0;
    });
  }

  void expect_bytes(const ExpertStore& store) const {
    for (std::int64_t block = 0; block < store.placement().counts().num_blocks; ++block) {
      for (std::int64_t expert = 0; expert < store.placement().counts().num_experts; ++expert) {
        if (store.placement().level(block, expert) == ExpertLevel::kDisk) continue;
        ASSERT_TRUE(has_bytes(store.shape(block), store.address(block, expert), block, expert))
            << block << " " << expert;
      }
    }
  }

  ThreadPool pool_;
  std::unique_ptr<ModelWeights> weights_;
};

TEST_P(ExpertStoreOf, KeepsEveryExpertThroughSwaps) {
  const ModelConfig& config = weights_->config();
  const std::int64_t num_blocks = config.num_hidden_layers, num_experts = config.n_routed_experts;
  const std::int64_t all = num_blocks * num_experts;
  const ExpertCounts some[] = {{num_blocks, num_experts, 1},      {num_blocks, num_experts, all / 2},
                               {num_blocks, num_experts, all},    {num_blocks, num_experts, all / 3, all / 3},
                               {num_blocks, num_experts, 0, all}, {num_blocks, num_experts, all / 2, 1}};
  for (const ExpertCounts& counts : some) {
    ExpertStore store(weights_->tree().blocks, counts, host_memory(), host_memory(), nullptr);
    expect_bytes(store);
    std::mt19937 random(1);
    for (int i = 0; i < 80; ++i) {
      const ExpertSwap swap{static_cast<std::int64_t>(random()) % num_blocks,
                            static_cast<std::int64_t>(random()) % num_experts,
                            static_cast<std::int64_t>(random()) % num_experts};
      if (store.placement().level(swap.block, swap.promoted) >
          store.placement().level(swap.block, swap.demoted))
        store.swap(swap);
    }
    expect_bytes(store);
  }
}

TEST_P(ExpertStoreOf, KernelsFindExpertsByTheTable) {
  DeviceWeights copy(weights_->tree(), host_memory(), BlockRange());
  const ExpertStore store(weights_->tree().blocks, {2, weights_->config().n_routed_experts, 5}, host_memory(),
                          host_memory(), nullptr);
  store.bind(copy.tree());
  for (std::int64_t block = 0; block < 2; ++block) {
    const MoeWeights& moe = copy.tree().block(block).moe;
    std::set<std::int32_t> taken;
    const std::int64_t distance = moe.routed[1].w1.data - moe.routed[0].w1.data;
    for (std::int64_t expert = 0; expert < store.placement().counts().num_experts; ++expert) {
      const std::int32_t place = moe.places.of_expert[expert];
      EXPECT_LT(place, moe.places.count);
      EXPECT_EQ(moe.routed[0].w1.data + place * distance, store.address(block, expert));
      // Experts on the host, and no others, have a place of their own to be copied to.
      const std::int32_t copied = moe.places.copied[expert];
      EXPECT_EQ(copied == place, store.placement().on_device(block, expert));
      EXPECT_TRUE(copied == place || taken.insert(copied).second);
    }
    EXPECT_EQ(moe.places.blocks, moe.routed[0].w1.data);
    EXPECT_EQ(moe.places.block_bytes, distance);
  }
  EXPECT_TRUE(copy.tree().blocks.back().moe.routed.empty());
}

/// A kernel brings missing pieces of an expert in a slot from the host's memory: of experts on disk slots
/// have all pieces or none, also of those that a guess had begun to fetch before they went there.
TEST_P(ExpertStoreOf, SlotsHaveNoPartsOfExpertsOnDisk) {
  const std::int64_t num_blocks = weights_->config().num_hidden_layers;
  const auto num_experts = static_cast<std::int32_t>(weights_->config().n_routed_experts);
  const std::int64_t all = num_blocks * num_experts;
  DeviceWeights copy(weights_->tree(), host_memory(), BlockRange());
  ExpertStore store(weights_->tree().blocks,
                    {.num_blocks = num_blocks,
                     .num_experts = num_experts,
                     .num_on_host = all / 3,
                     .num_on_disk = all / 3,
                     .num_slots = 2,
                     .num_selected = 1},
                    host_memory(), host_memory(), nullptr);
  store.bind(copy.tree());
  const std::int32_t num_pieces = num_fetch_pieces(copy.tree().block(0).moe.places.block_bytes);
  std::mt19937 random(1);
  int num_parts = 0, num_whole = 0;  // of experts that then went to disk
  for (int trial = 0; trial < 300; ++trial) {
    const ExpertSwap swap{static_cast<std::int64_t>(random()) % num_blocks,
                          static_cast<std::int64_t>(random()) % num_experts,
                          static_cast<std::int64_t>(random()) % num_experts};
    if (store.placement().level(swap.block, swap.promoted) <=
        store.placement().level(swap.block, swap.demoted))
      continue;
    // As kernels leave it: slot 0 has what is about to move, slot 1 another expert, of which all has come.
    ExpertSlotState& state = *copy.tree().block(swap.block).moe.places.slots.state;
    const auto demoted = static_cast<std::int32_t>(swap.demoted), other = (demoted + 1) % num_experts;
    const bool is_whole = random() % 2 == 0;
    state.expert[0] = demoted;
    state.expert[1] = other;
    std::fill_n(state.pieces[0], num_pieces, std::uint8_t{1});
    std::fill_n(state.pieces[1], num_pieces, std::uint8_t{1});
    if (!is_whole) state.pieces[0][random() % static_cast<std::uint32_t>(num_pieces)] = 0;
    store.swap(swap);
    const bool is_on_disk = store.placement().level(swap.block, swap.demoted) == ExpertLevel::kDisk;
    EXPECT_EQ(state.expert[0], is_on_disk && !is_whole ? -1 : demoted) << trial;
    EXPECT_EQ(state.expert[1], other) << trial;
    (is_whole ? num_whole : num_parts) += is_on_disk ? 1 : 0;
  }
  EXPECT_GT(num_parts, 0);
  EXPECT_GT(num_whole, 0);
}

/// In the host's memory and on disk, as kernels find them by the table of places, while experts move.
TEST_P(ExpertStoreOf, TheHostComputesExpertsWhereTheyLie) {
  constexpr float kLimit = 7.0F;
  const std::int64_t num_blocks = weights_->config().num_hidden_layers;
  const auto num_experts = static_cast<std::int32_t>(weights_->config().n_routed_experts);
  const std::int64_t all = num_blocks * num_experts;
  for (const ExpertCounts& counts : {ExpertCounts{num_blocks, num_experts, all / 2},
                                     ExpertCounts{num_blocks, num_experts, all / 3, all / 3},
                                     ExpertCounts{num_blocks, num_experts, 0, all / 2}}) {
    DeviceWeights copy(weights_->tree(), host_memory(), BlockRange());
    ExpertStore store(weights_->tree().blocks, counts, host_memory(), host_memory(), nullptr);
    EXPECT_FALSE(store.computed());
    const HostExpertTimes times = store.measure_host(kLimit, 2);
    EXPECT_GT(times.compute_expert, 0U);
    EXPECT_GT(times.fetch_piece, 0U);
    store.compute_on_host(times);
    store.bind(copy.tree());
    std::mt19937 random(1);
    std::uint64_t number = 0;
    for (int trial = 0; trial < 24; ++trial) {
      const auto block = static_cast<std::int64_t>(random()) % num_blocks;
      const MoeWeights& moe = copy.tree().block(block).moe;
      std::vector<test::AskedExpert> asked;
      for (std::int32_t expert = 0; expert < num_experts; ++expert) {
        if (store.placement().on_device(block, expert) || random() % 2 == 0) continue;
        const auto& from = weights_->tree().block(block).moe.routed[static_cast<std::size_t>(expert)];
        asked.push_back(
            {expert, moe.places.of_expert[expert], {static_cast<std::int32_t>(random() % 2)}, &from});
      }
      if (!asked.empty()) {
        EXPECT_EQ(test::wrong_rows(moe.places.slots.host, ++number, asked, 2, kLimit, random), 0) << trial;
      }
      const ExpertSwap swap{block, static_cast<std::int64_t>(random()) % num_experts,
                            static_cast<std::int64_t>(random()) % num_experts};
      if (store.placement().level(block, swap.promoted) > store.placement().level(block, swap.demoted))
        store.swap(swap);
    }
    ASSERT_TRUE(store.computed());
    EXPECT_EQ(store.computed()->requests, number);
  }
}

/// Of layers in NVFP4 and a draft head's block in FP4, which is smaller.
TEST(ExpertStoreOfBlocks, MayDifferInFormat) {
  ThreadPool pool(1);
  ModelConfig config = preset_config("tiny-flash");
  const auto fp4 = made_up_weights(config, 1, pool, MadeUpBytes::kOfEachTensor);
  config.expert_format = WeightFormat::kNvfp4;
  const auto nvfp4 = made_up_weights(config, 2, pool, MadeUpBytes::kOfEachTensor);
  std::vector<BlockWeights> blocks = nvfp4->tree().blocks;
  blocks.back() = fp4->tree().blocks.back();
  const std::int64_t num_blocks = config.num_blocks(), num_experts = config.n_routed_experts;
  const ExpertStore store(blocks, {num_blocks, num_experts, num_blocks * num_experts / 2}, host_memory(),
                          host_memory(), nullptr);
  EXPECT_LT(store.shape(num_blocks - 1).bytes(), store.shape(0).bytes());
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const std::vector<ExpertWeights>& from = blocks[static_cast<std::size_t>(block)].moe.routed;
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      const ExpertWeights& stored = from[static_cast<std::size_t>(expert)];
      const ExpertWeights found = store.shape(block).at(store.address(block, expert));
      for (WeightMatrix ExpertWeights::*which :
           {&ExpertWeights::w1, &ExpertWeights::w2, &ExpertWeights::w3}) {
        const WeightMatrix &a = found.*which, &b = stored.*which;
        ASSERT_EQ(a.format, b.format);
        ASSERT_EQ(std::memcmp(a.data, b.data, static_cast<std::size_t>(b.size_bytes())), 0);
        ASSERT_EQ(std::memcmp(a.scales(), b.scales(), static_cast<std::size_t>(b.scale_bytes())), 0);
        ASSERT_EQ(a.output_factor(), b.output_factor());
      }
    }
  }
}

/// Copies at the moment when operations begin to wait for them, as late as a stream may.
class LateCopies final : public BackgroundCopies {
 public:
  void wait_for_operations() override {}
  void start(std::byte* to, const std::byte* from, std::int64_t size_bytes) override {
    started_.push_back({to, from, size_bytes});
  }
  void set_mark(int mark) override { marks_[static_cast<std::size_t>(mark)] = started_.size(); }
  void make_operations_wait_for(int mark) override {
    for (; done_ < marks_[static_cast<std::size_t>(mark)]; ++done_) {
      const auto& [to, from, size_bytes] = started_[done_];
      std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
    }
  }
  void wait_for(int mark) override { make_operations_wait_for(mark); }
  [[nodiscard]] bool are_done() const { return done_ == started_.size(); }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::int64_t size_bytes;
  };
  std::vector<Copy> started_;
  std::array<std::size_t, kNumMarks> marks_{};
  std::size_t done_ = 0;
};

TEST_P(ExpertStoreOf, StepsOfManyTokensFindCopies) {
  const std::int64_t num_blocks = weights_->config().num_blocks();
  const std::int64_t num_experts = weights_->config().n_routed_experts, all = num_blocks * num_experts;
  // With more on disk than there are stages.
  for (const ExpertCounts& counts : {ExpertCounts{num_blocks, num_experts, all / 2 + 1},
                                     ExpertCounts{num_blocks, num_experts, all / 3, all / 3}}) {
    LateCopies copies;
    DeviceWeights weights(weights_->tree(), host_memory(), BlockRange());
    ExpertStore store(weights_->tree().blocks, counts, host_memory(), host_memory(), &copies);
    store.bind(weights.tree());
    EXPECT_FALSE(store.copies_for(ExpertStore::kMaxRowsOfKernelCopies));
    ASSERT_TRUE(store.copies_for(ExpertStore::kMaxRowsOfKernelCopies + 1));
    const auto pass = [&](std::int64_t begin, std::int64_t end) {
      store.begin_pass(begin, end);
      for (std::int64_t block = begin; block < end; ++block) {
        store.arrive(block);
        const std::vector<ExpertWeights>& routed = weights.tree().block(block).moe.routed;
        const std::byte* base = routed[0].w1.data;
        const std::int64_t distance = routed[1].w1.data - base;
        const ExpertPlaces places = store.copied_places(block);
        for (std::int64_t expert = 0; expert < counts.num_experts; ++expert) {
          ASSERT_GE(places.of_expert[expert], 0);
          EXPECT_LT(places.of_expert[expert], places.count);
          const std::byte* found = base + places.of_expert[expert] * distance;
          EXPECT_TRUE(has_bytes(store.shape(block), found, block, expert)) << block << " " << expert;
          EXPECT_EQ(store.placement().on_device(block, expert),
                    store.placement().level(block, expert) != ExpertLevel::kDisk &&
                        found == store.address(block, expert));
        }
        store.leave(block);
      }
      // The buffers are free for the kernels of a step of fewer tokens.
      EXPECT_TRUE(copies.are_done());
    };
    const auto fill = [&] {
      store.cache(store.cached().improvements(store.placement(), {}, 0, store.cached().num_places()));
      EXPECT_FALSE(store.cached().empty());
    };
    pass(0, num_blocks);
    fill();
    pass(0, num_blocks - 1);
    EXPECT_TRUE(store.cached().empty()) << "the buffers are taken";
    fill();
    pass(num_blocks - 1, num_blocks);  // the MTP block alone
    fill();
    store.swap({1, counts.num_experts - 1, 0});
    pass(0, num_blocks);
  }
}

/// Copies in the buffers, while experts change places and steps need room: kernels find the expert's bytes at
/// the place that the table says, and what is cached like what the device has.
TEST_P(ExpertStoreOf, KernelsFindCachedExperts) {
  const std::int64_t num_blocks = weights_->config().num_hidden_layers;
  const std::int64_t num_experts = weights_->config().n_routed_experts, all = num_blocks * num_experts;
  for (const ExpertCounts& counts : {ExpertCounts{.num_blocks = num_blocks,
                                    .num_experts = num_experts,
                                    .num_on_host = all - num_blocks,
                                    .num_selected = 2},
                                     ExpertCounts{.num_blocks = num_blocks,
                                     .num_experts = num_experts,
                                     .num_on_host = all / 3,
                                     .num_on_disk = all / 3,
                                     .num_selected = 1}}) {
    DeviceWeights copy(weights_->tree(), host_memory(), BlockRange());
    ExpertStore store(weights_->tree().blocks, counts, host_memory(), host_memory(), nullptr);
    store.bind(copy.tree());
    std::mt19937 random(1);
    std::int64_t most_cached = 0;
    for (int trial = 0; trial < 60; ++trial) {
      std::vector<std::vector<double>> use(static_cast<std::size_t>(num_blocks));
      for (std::vector<double>& of_block : use) {
        for (std::int64_t i = 0; i < num_experts; ++i)
          of_block.push_back(static_cast<double>(random() % 100));
      }
      store.cache(store.cached().improvements(store.placement(), use, 0, 1 + random() % 8));
      const ExpertSwap swap{static_cast<std::int64_t>(random()) % num_blocks,
                            static_cast<std::int64_t>(random()) % num_experts,
                            static_cast<std::int64_t>(random()) % num_experts};
      if (store.placement().level(swap.block, swap.promoted) >
          store.placement().level(swap.block, swap.demoted))
        store.swap(swap);
      const std::int64_t num_rows = trial % 5 == 0 ? static_cast<std::int64_t>(random()) % 4 : 0;
      store.make_room(num_rows);
      std::set<std::int32_t> taken;
      std::int64_t num_cached = 0;
      const MoeWeights& first = copy.tree().block(0).moe;
      for (std::int64_t block = 0; block < num_blocks; ++block) {
        const ExpertPlaces& places = copy.tree().block(block).moe.places;
        for (std::int64_t expert = 0; expert < num_experts; ++expert) {
          const std::int32_t place = places.of_expert[expert];
          const auto cached = store.cached().place_of({block, expert});
          num_cached += cached ? 1 : 0;
          EXPECT_EQ(place < 0, store.placement().level(block, expert) == ExpertLevel::kDisk);
          if (place < 0) continue;
          EXPECT_TRUE(taken.insert(place).second) << "no two experts at a place";
          ASSERT_TRUE(has_bytes(store.shape(block),
                                first.routed[0].w1.data + place * first.places.block_bytes, block, expert))
              << block << " " << expert;
          EXPECT_EQ(place == places.slots.buffered[expert],
                    cached || store.placement().on_device(block, expert));
          EXPECT_EQ(places.copied[expert], places.slots.buffered[expert]);
        }
        // What a step of so many tokens copies to.
        for (std::int64_t i = 0; i < counts.num_buffer_places_for(num_rows); ++i)
          EXPECT_FALSE(taken.contains(places.slots.buffer + static_cast<std::int32_t>(i)));
      }
      most_cached = std::max(most_cached, num_cached);
    }
    EXPECT_GT(most_cached, 0);
    expect_bytes(store);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, ExpertStoreOf, testing::Values("tiny-flash", "tiny-real-heads"),
                         [](const auto& param) {
                           std::string name(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace baleen
