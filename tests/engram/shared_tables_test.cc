// Tables that several ranks share: one of them brings the copy, and it goes with the last who has it.
#include "engram/shared_tables.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/engram/small_tables.h"

namespace baleen {
namespace {

class TablesOfRanks : public testing::Test {
 protected:
  std::shared_ptr<const EngramTables> load() {
    ++num_loads_;
    return std::make_shared<const EngramTables>(stored_engram_tables(small_.config, checkpoint_),
                                                EngramPlace::kHost, host_memory());
  }
  std::shared_ptr<const EngramTables> get() {
    return shared_.get([this] { return load(); });
  }

  test::SmallTables small_;
  Checkpoint checkpoint_{small_.folder()};
  SharedEngramTables shared_;
  std::atomic<int> num_loads_ = 0;
};

TEST_F(TablesOfRanks, AreLoadedOnce) {
  std::vector<std::shared_ptr<const EngramTables>> got(8);
  {
    std::vector<std::jthread> ranks;
    for (auto& tables : got) ranks.emplace_back([&] { tables = get(); });
  }
  EXPECT_EQ(num_loads_, 1);
  for (const auto& tables : got) EXPECT_EQ(tables, got.front());
  EXPECT_NE(got.front(), nullptr);
}

TEST_F(TablesOfRanks, GoWithTheLastRankThatHasThem) {
  std::shared_ptr<const EngramTables> first = get(), second = get();
  const std::weak_ptr<const EngramTables> watched = first;
  first.reset();
  EXPECT_FALSE(watched.expired());
  second.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(TablesOfRanks, AFailedLoadIsItsCallersAndTheNextOneLoads) {
  EXPECT_THROW(
      static_cast<void>(shared_.get([]() -> std::shared_ptr<const EngramTables> { fail("no memory"); })),
      Error);
  EXPECT_NE(get(), nullptr);
  EXPECT_EQ(num_loads_, 1);
}

TEST_F(TablesOfRanks, RanksBehindTheFirstNeedNoMemoryForThem) {
  std::vector<bool> seen;
  const auto choose = [&](bool takes_host) {
    shared_.choose([&](bool is_shared) {
      seen.push_back(is_shared);
      return takes_host;
    });
  };
  choose(false);  // has room on its device
  choose(true);
  choose(true);
  choose(false);
  choose(true);
  EXPECT_EQ(seen, (std::vector<bool>{false, false, true, true, true}));
}

}  // namespace
}  // namespace baleen
