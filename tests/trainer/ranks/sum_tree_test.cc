#include "trainer/ranks/sum_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baleen {
namespace {

/// What was added to what.
std::string tree_of(const std::vector<std::string>& values) {
  const auto add = [](std::string& sum, const std::string& value) { sum = "(" + sum + value + ")"; };
  SumTree<std::string> tree;
  for (const std::string& value : values) tree.push(value, add);
  return tree.take(add);
}

std::vector<std::string> letters(std::size_t begin, std::size_t end) {
  std::vector<std::string> values;
  for (std::size_t i = begin; i < end; ++i) values.emplace_back(1, static_cast<char>('a' + i));
  return values;
}

TEST(SumTree, NeighboursFirst) {
  EXPECT_EQ(tree_of(letters(0, 1)), "a");
  EXPECT_EQ(tree_of(letters(0, 3)), "((ab)c)");
  EXPECT_EQ(tree_of(letters(0, 4)), "((ab)(cd))");
  EXPECT_EQ(tree_of(letters(0, 7)), "(((ab)(cd))((ef)g))");
}

TEST(SumTree, SumsOfEqualBlocksAreTheSumOfAll) {
  for (const std::size_t block : {1U, 2U, 4U, 8U}) {
    for (std::size_t num_blocks = 1; num_blocks < 12; ++num_blocks) {
      std::vector<std::string> sums;
      for (std::size_t i = 0; i < num_blocks; ++i)
        sums.push_back(tree_of(letters(i * block, (i + 1) * block)));
      EXPECT_EQ(tree_of(sums), tree_of(letters(0, num_blocks * block))) << block << " " << num_blocks;
    }
  }
}

}  // namespace
}  // namespace baleen
