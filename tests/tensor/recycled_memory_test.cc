#include "tensor/recycled_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace baleen {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(RecycledMemory, ABlockComesBackForAnArrayOfAboutItsSize) {
  void* const block = take_recycled(37 * kMiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
  std::memset(block, 1, 37 * kMiB);
  give_back_recycled(block);
  void* const smaller = take_recycled(30 * kMiB);
  EXPECT_EQ(smaller, block);
  void* const other = take_recycled(30 * kMiB);
  EXPECT_NE(other, block);
  give_back_recycled(smaller);
  give_back_recycled(other);
}

TEST(RecycledMemory, NoTwoArraysShareABlock) {
  const auto work = [](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<unsigned char*, std::size_t>> held;
    for (int i = 0; i < 200; ++i) {
      if (held.size() < 8) {
        const std::size_t size = 1 + random() % (3 * kMiB);
        auto* const block = static_cast<unsigned char*>(take_recycled(size));
        std::memset(block, static_cast<int>(seed), size);
        held.emplace_back(block, size);
        continue;
      }
      const std::size_t at = random() % held.size();
      const auto [block, size] = held[at];
      for (std::size_t byte = 0; byte < size; byte += 4096) ASSERT_EQ(block[byte], seed);
      ASSERT_EQ(block[size - 1], seed);
      give_back_recycled(block);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    for (const auto& [block, size] : held) give_back_recycled(block);
  };
  std::vector<std::jthread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
}

}  // namespace
}  // namespace baleen
