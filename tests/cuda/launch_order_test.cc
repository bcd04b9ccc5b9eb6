// Which launches may still run when the next one of a stream begins: by hand, and against lists of all
// launches of which nothing is left out.
#include "cuda/launch_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <map>
#include <set>

namespace baleen {
namespace {

constexpr NextKernel kAtOnce = NextKernel::kAtOnce, kBehindWait = NextKernel::kBehindWait;

/// Streams are told apart by their addresses alone.
const std::array<int, 3> kStreams{};
const CUstream_st* stream(int i) { return reinterpret_cast<const CUstream_st*>(&kStreams[i]); }
const CUstream_st* const kMain = stream(0);
const CUstream_st* const kSide = stream(1);

/// Sixteen arrays of four bytes.
const std::array<std::byte, 64> kMemory{};
MemoryRange array(int i) { return {kMemory.data() + 4 * i, 4}; }
Accesses reads(int i) { return Accesses().read(array(i)); }
Accesses writes(int i) { return Accesses().write(array(i)); }

class LaunchOrderTest : public ::testing::Test {
 protected:
  LaunchOrder order_{kMain};

  /// An operation that is one launch.
  void launch(const Accesses& accesses, NextKernel next, bool early = true, const CUstream_st* on = kMain) {
    order_.begin_operation() = accesses;
    order_.add_launch(on, early, next);
  }
  bool is_settled(const Accesses& accesses, const CUstream_st* on = kMain) {
    return order_.is_settled(on, accesses);
  }
  /// What was queued before the test is done.
  void settle() { launch({}, kBehindWait); }
};

TEST_F(LaunchOrderTest, NothingIsSettledBehindUnknownWork) {
  EXPECT_FALSE(is_settled(reads(0)));
  launch(writes(1), kAtOnce);
  EXPECT_FALSE(is_settled(reads(0))) << "the kernel may have begun beside that work";
  launch(writes(2), kBehindWait);
  EXPECT_TRUE(is_settled(reads(0)));
  EXPECT_TRUE(is_settled(reads(1)));
  EXPECT_FALSE(is_settled(reads(2)));
  order_.forget();
  EXPECT_FALSE(is_settled(reads(0)));
  launch(writes(2), kAtOnce, false);
  EXPECT_TRUE(is_settled(reads(0))) << "it began when that work was done";
}

TEST_F(LaunchOrderTest, KernelsThatLetTheNextBeginAtOnceLeaveThoseBeforeRunning) {
  settle();
  launch(writes(0), kBehindWait);
  launch(writes(1), kAtOnce);
  launch(writes(2), kAtOnce);
  for (const int running : {0, 1, 2}) EXPECT_FALSE(is_settled(reads(running))) << running;
  launch(writes(3), kBehindWait);
  for (const int done : {0, 1, 2}) EXPECT_TRUE(is_settled(reads(done))) << done;
  EXPECT_FALSE(is_settled(reads(3)));
  launch(writes(4), kAtOnce, false);
  EXPECT_TRUE(is_settled(reads(3)));
  EXPECT_FALSE(is_settled(reads(4)));
}

TEST_F(LaunchOrderTest, WritesConflictWithReadsAndWritesAndReadsDoNot) {
  settle();
  launch(Accesses().read(array(0)).write(array(1)), kAtOnce);
  EXPECT_TRUE(is_settled(reads(0)));
  EXPECT_FALSE(is_settled(writes(0))) << "it may still be read";
  EXPECT_FALSE(is_settled(reads(1)));
  EXPECT_FALSE(is_settled(writes(1)));
  EXPECT_TRUE(is_settled(writes(2)));
  EXPECT_FALSE(is_settled(Accesses().read(array(2), array(1))));
}

/// As a compressor behind the rotation of a rank's queries: without rows there is no kernel.
TEST_F(LaunchOrderTest, AnOperationWithoutAKernelOrdersNothing) {
  settle();
  launch(writes(0), kAtOnce);
  static_cast<void>(order_.begin_operation());
  EXPECT_FALSE(is_settled(reads(0)));
  launch(writes(1), kBehindWait);
  EXPECT_TRUE(is_settled(reads(0)));
}

TEST_F(LaunchOrderTest, EveryLaunchOfAnOperationMayDoAllOfIt) {
  settle();
  order_.begin_operation() = Accesses().read(array(0)).write(array(1));
  order_.add_launch(kMain, true, kBehindWait);
  EXPECT_TRUE(order_.earlier_operations_are_done(kMain));
  order_.add_launch(kMain, true, kBehindWait);
  EXPECT_FALSE(is_settled(reads(1)));
  EXPECT_TRUE(order_.earlier_operations_are_done(kMain));
  order_.begin_operation() = writes(2);
  EXPECT_FALSE(order_.earlier_operations_are_done(kMain));
  order_.add_launch(kMain, true, kAtOnce);
  EXPECT_FALSE(order_.earlier_operations_are_done(kMain)) << "it let the next begin at once";
  order_.add_launch(kMain, true, kBehindWait);
  EXPECT_TRUE(order_.earlier_operations_are_done(kMain));
}

TEST_F(LaunchOrderTest, ABranchRunsBesideWhatFollowsUntilItIsJoined) {
  settle();
  launch(writes(0), kAtOnce);
  const LaunchOrder::Place forked = order_.place(kMain);
  order_.wait(kSide, forked);
  launch(writes(1), kBehindWait, false, kSide);
  EXPECT_TRUE(is_settled(reads(0), kSide)) << "the branch begins behind it";
  for (int i = 0; i < 3; ++i) launch(writes(2), kBehindWait);
  EXPECT_TRUE(is_settled(reads(0)));
  EXPECT_FALSE(is_settled(reads(1))) << "not joined";
  EXPECT_FALSE(is_settled(reads(2), kSide)) << "beside the branch";
  order_.wait(kMain, order_.place(kSide));
  EXPECT_FALSE(is_settled(reads(1))) << "known behind the next kernel's wait";
  launch(writes(3), kAtOnce, false);
  EXPECT_TRUE(is_settled(reads(1)));
  EXPECT_TRUE(is_settled(reads(2)));
}

/// Two posts of messages; the first is joined while the second is under way.
TEST_F(LaunchOrderTest, AJoinWaitsForNoMoreThanWasQueuedAtItsPlace) {
  settle();
  const auto post = [&](int written) {
    order_.wait(kSide, order_.place(kMain));
    launch({}, kBehindWait, false, kSide);
    launch(writes(written), kAtOnce, true, kSide);
    return order_.place(kSide);
  };
  const LaunchOrder::Place first = post(0), second = post(1);
  for (int i = 0; i < 3; ++i) launch(writes(2), kBehindWait);
  order_.wait(kMain, first);
  launch({}, kBehindWait, false);
  EXPECT_TRUE(is_settled(reads(0)));
  EXPECT_FALSE(is_settled(reads(1)));
  order_.wait(kMain, second);
  launch({}, kBehindWait, false);
  EXPECT_TRUE(is_settled(reads(1)));
}

/// A place from before a replayed graph says nothing of what is queued behind it.
TEST_F(LaunchOrderTest, PlacesFromBeforeUnknownWorkStayWhereTheyWere) {
  settle();
  for (int i = 0; i < 5; ++i) launch(writes(0), kBehindWait, i > 0, kSide);
  const LaunchOrder::Place before = order_.place(kSide);
  order_.forget();
  settle();
  order_.wait(kMain, before);
  launch({}, kBehindWait, false);
  launch(writes(1), kAtOnce, true, kSide);
  EXPECT_FALSE(is_settled(reads(1)));
}

TEST_F(LaunchOrderTest, LaunchesOfNoOperationMayDoAnything) {
  launch({}, kBehindWait);
  EXPECT_TRUE(is_settled(writes(0)));
  order_.forget();
  order_.add_launch(kMain, true, kBehindWait);
  EXPECT_FALSE(is_settled(reads(0)));
}

/// The same of sets of launches. Nothing is dropped.
class NaiveOrder {
 public:
  void add(int on, bool early, NextKernel next, const Accesses& accesses) {
    Stream& own = streams_[on];
    const std::set<std::size_t> before = before_next(own);
    const std::set<std::size_t> at_begin = early ? own.at_begin_of_next : before;
    own.all = before;
    own.all.insert(launches_.size());
    own.at_begin_of_next = next == kBehindWait ? before : at_begin;
    own.awaited.clear();
    launches_.push_back(accesses);
  }
  [[nodiscard]] std::set<std::size_t> place(int on) { return before_next(streams_[on]); }
  void wait(int on, const std::set<std::size_t>& place) {
    streams_[on].awaited.insert(place.begin(), place.end());
  }
  [[nodiscard]] bool is_settled(int on, const Accesses& accesses) {
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (!streams_[on].at_begin_of_next.contains(i) && conflict(accesses, launches_[i])) return false;
    }
    return true;
  }

 private:
  struct Stream {
    std::set<std::size_t> all, at_begin_of_next, awaited;
  };
  static std::set<std::size_t> before_next(const Stream& stream) {
    std::set<std::size_t> before = stream.all;
    before.insert(stream.awaited.begin(), stream.awaited.end());
    return before;
  }
  static bool conflict(const Accesses& one, const Accesses& other) {
    const auto meet = [](auto some, auto others) {
      for (const MemoryRange& a : some) {
        for (const MemoryRange& b : others) {
          if (overlap(a, b)) return true;
        }
      }
      return false;
    };
    return meet(one.writes(), other.writes()) || meet(one.writes(), other.reads()) ||
           meet(one.reads(), other.writes());
  }

  std::map<int, Stream> streams_;
  std::vector<Accesses> launches_;
};

/// Side streams are forked and joined as branches and posted messages are: kernels behind an event do not
/// start early.
RC_GTEST_PROP(LaunchOrder, AgreesWithListsOfAllLaunches, ()) {
  LaunchOrder order(kMain);
  NaiveOrder naive;
  order.begin_operation() = {};
  order.add_launch(kMain, false, kBehindWait);
  naive.add(0, false, kBehindWait, {});
  std::array<bool, 3> is_open{}, is_behind_event{};
  const int num_steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < num_steps; ++step) {
    const int side = *rc::gen::inRange(1, 3);
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
        order.wait(stream(side), order.place(kMain));
        naive.wait(side, naive.place(0));
        is_open[static_cast<std::size_t>(side)] = is_behind_event[static_cast<std::size_t>(side)] = true;
        break;
      case 1:
        if (!is_open[static_cast<std::size_t>(side)]) break;
        order.wait(kMain, order.place(stream(side)));
        naive.wait(0, naive.place(side));
        is_open[static_cast<std::size_t>(side)] = false;
        is_behind_event[0] = true;
        break;
      default: {
        const int on = is_open[static_cast<std::size_t>(side)] && *rc::gen::arbitrary<bool>() ? side : 0;
        bool& behind_event = is_behind_event[static_cast<std::size_t>(on)];
        const bool early = !behind_event && *rc::gen::arbitrary<bool>();
        const NextKernel next = *rc::gen::element(kAtOnce, kBehindWait);
        const Accesses accesses =
            Accesses().read(array(*rc::gen::inRange(0, 16))).write(array(*rc::gen::inRange(0, 16)));
        order.begin_operation() = accesses;
        order.add_launch(stream(on), early, next);
        naive.add(on, early, next, accesses);
        behind_event = false;
      }
    }
    for (int on = 0; on < 3; ++on) {
      const auto place = static_cast<std::size_t>(on);
      if ((on > 0 && !is_open[place]) || is_behind_event[place]) continue;
      for (int i = 0; i < 16; ++i) {
        RC_ASSERT(order.is_settled(stream(on), reads(i)) == naive.is_settled(on, reads(i)));
        RC_ASSERT(order.is_settled(stream(on), writes(i)) == naive.is_settled(on, writes(i)));
      }
    }
  }
}

}  // namespace
}  // namespace baleen
