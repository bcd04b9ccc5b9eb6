#include "parallel/memory_nodes.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

std::vector<int> allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) processors.push_back(processor);
  }
  return processors;
}

class MemoryNodes : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& list) {
    std::filesystem::create_directories(folder_.path() / name);
    std::ofstream(folder_.path() / name / "cpulist") << list;
  }
  [[nodiscard]] std::vector<std::vector<int>> nodes() const { return memory_nodes(folder_.path()); }

  const test::TemporaryFolder folder_;
  const std::vector<int> allowed_ = allowed_processors();
};

TEST_F(MemoryNodes, AreReadInOrderWithAllowedProcessorsOnly) {
  add("node10", std::to_string(allowed_.back()) + "\n");
  add("node2", "0-2000000000\n");  // a node may name more processors than the process may use
  add("node3", "\n");              // memory alone
  add("power", "0\n");
  add("nodes", "0\n");
  EXPECT_EQ(nodes(), (std::vector<std::vector<int>>{allowed_, {allowed_.back()}}));
}

TEST_F(MemoryNodes, WordsThatAreNoRangeCountForNothing) {
  const std::string first = std::to_string(allowed_.front());
  add("node0", "x,-,5-2," + first + "-," + first + ",,99999999999999999999,-3");
  EXPECT_EQ(nodes(), (std::vector<std::vector<int>>{{allowed_.front()}}));
  EXPECT_TRUE(memory_nodes(folder_.path() / "none").empty());
}

TEST_F(MemoryNodes, AreSharedOut) {
  const auto parts = [&](const std::vector<std::vector<int>>& of, std::int64_t num_parts) {
    std::vector<std::vector<int>> all;
    for (std::int64_t part = 0; part < num_parts; ++part) {
      std::thread([&] {
        stay_on_nodes(of, part, num_parts);
        std::thread([&] { all.push_back(allowed_processors()); }).join();  // as threads of a pool are started
      }).join();
    }
    return all;
  };
  EXPECT_EQ(parts({}, 2), (std::vector<std::vector<int>>{allowed_, allowed_}));
  EXPECT_EQ(parts({{allowed_.front()}}, 1), (std::vector<std::vector<int>>{allowed_}));
  if (allowed_.size() < 2) GTEST_SKIP() << "one processor";
  const std::vector<int> a{allowed_[0]}, b{allowed_[1]}, both{allowed_[0], allowed_[1]};
  EXPECT_EQ(parts({a, b}, 2), (std::vector<std::vector<int>>{a, b}));
  EXPECT_EQ(parts({a, b}, 1), (std::vector<std::vector<int>>{both}));
  EXPECT_EQ(parts({a, b}, 4), (std::vector<std::vector<int>>{a, a, b, b}));
  EXPECT_EQ(parts({a, b}, 3), (std::vector<std::vector<int>>{a, a, b}));
  EXPECT_EQ(parts({a, a, b, b}, 2), (std::vector<std::vector<int>>{a, b}));
  EXPECT_EQ(parts({a, b, b}, 2), (std::vector<std::vector<int>>{a, b}));
}

}  // namespace
}  // namespace baleen
