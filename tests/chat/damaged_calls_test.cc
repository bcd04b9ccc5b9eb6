// Calls of everyday tools in every kind of damage that we know of: at least 95 in a hundred that are clear
// come out as they were meant, and none ever comes out with other arguments. Prints the share of every kind.
// BALEEN_TEST_SEED takes other cases, BALEEN_TEST_SHOW prints those that are lost.
#include "damaged_calls.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "chat/call_memory.h"
#include "chat/format.h"
#include "everyday_calls.h"
#include "read_reply.h"
#include "spaced_tags.h"

namespace baleen {
namespace {

using test::DamagedCalls;
using test::ReadReply;

struct Tally {
  int num_clear = 0, num_recovered = 0, num_unclear = 0, num_wrong = 0;
};

std::optional<std::string> canonical(const std::pair<std::string, std::string>& call) {
  return canonical_calls(std::vector<ToolCall>{{"", call.first, call.second}});
}

/// Whether every call that came out was meant, each once and in that order.
bool has_only_meant(const ReadReply& read, const DamagedCalls& damaged) {
  std::size_t next = 0;
  for (const auto& call : read.calls) {
    const auto is_it = [&](const ToolCall& meant) {
      return canonical({meant.name, meant.arguments}) == canonical(call);
    };
    while (next < damaged.meant.size() && !is_it(damaged.meant[next])) ++next;
    if (next++ == damaged.meant.size()) return false;
  }
  return true;
}

void print(const char* what, const Tally& tally) {
  std::printf("%-52s clear %4d, recovered %5.1f%%; unclear %3d; wrong %d\n", what, tally.num_clear,
              tally.num_clear == 0 ? 100.0 : 100.0 * tally.num_recovered / tally.num_clear, tally.num_unclear,
              tally.num_wrong);
}

TEST(DamagedCalls, NoneIsWrongAndNearlyAllAreRecovered) {
  const char* seed = std::getenv("BALEEN_TEST_SEED");
  const bool shows_lost = std::getenv("BALEEN_TEST_SHOW") != nullptr;
  for (const CallTags* tags : {&joined_call_tags(), &spaced_call_tags()}) {
    const bool is_spaced = tags == &spaced_call_tags();
    std::map<std::string, Tally> by_kind;
    Tally total;
    for (const DamagedCalls& damaged : test::damaged_calls(
             seed == nullptr ? 1U : static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10)), 8)) {
      const std::string text = is_spaced ? test::in_spaced_tags(damaged.text) : damaged.text;
      const ReadReply read = test::read_reply(text, test::everyday_tools(), {.tags = tags});
      const bool is_right = has_only_meant(read, damaged);
      const bool is_recovered = is_right && read.calls.size() == damaged.meant.size();
      for (Tally* tally : {&total, &by_kind[damaged.kind]}) {
        tally->num_clear += damaged.is_clear ? 1 : 0;
        tally->num_unclear += damaged.is_clear ? 0 : 1;
        tally->num_recovered += damaged.is_clear && is_recovered ? 1 : 0;
        tally->num_wrong += is_right ? 0 : 1;
      }
      EXPECT_TRUE(is_right) << damaged.kind << "\n"
                            << text << "\n"
                            << (read.calls.empty() ? "" : read.calls[0].first + " " + read.calls[0].second);
      if (read.calls.size() < damaged.meant.size()) {
        EXPECT_NE(read.num_dropped, 0u) << damaged.kind << "\n" << text;
      }
      EXPECT_FALSE(test::leaks_markup(read.content)) << text << "\n" << read.content;
      if (shows_lost && damaged.is_clear && !is_recovered)
        std::printf("LOST %s:%s\n--\n", damaged.kind.c_str(), text.c_str());
    }
    for (const auto& [kind, tally] : by_kind) {
      if (!is_spaced) print(kind.c_str(), tally);
    }
    print(is_spaced ? "all, in spaced tags" : "all", total);
    EXPECT_EQ(total.num_wrong, 0);
    EXPECT_GE(total.num_clear, 1000);
    EXPECT_GE(100 * total.num_recovered, 95 * total.num_clear);
  }
}

}  // namespace
}  // namespace baleen
