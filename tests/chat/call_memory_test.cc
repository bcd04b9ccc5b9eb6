// Which calls count as the same, and what is kept.
#include "chat/call_memory.h"

#include <gtest/gtest.h>

#include <thread>

namespace baleen {
namespace {

using Calls = std::vector<ToolCall>;
using Raw = std::optional<std::string>;

Calls one(std::string arguments, std::string id = "") { return {{std::move(id), "f", std::move(arguments)}}; }

TEST(CanonicalCalls, DifferentTextOfTheSameCall) {
  const auto form = canonical_calls(one(R"({"b": [1, {"z": 1, "y": 2}], "a": "é"})"));
  EXPECT_EQ(form, canonical_calls(one("{\"a\":\"\\u00e9\",\n\"b\":[1,{\"y\":2,\"z\":1}]}")));
  EXPECT_EQ(form, canonical_calls(one(R"({"b": 0, "a": "é", "b": [1, {"z": 1, "y": 2}]})")));
  EXPECT_EQ(canonical_calls(one(R"({"a": 1e2})")), canonical_calls(one(R"({"a": 100.0})")));
  EXPECT_EQ(canonical_calls(one(R"({"a": "\/"})")), canonical_calls(one(R"({"a": "/"})")));
}

TEST(CanonicalCalls, DifferentCalls) {
  const char* const kDifferent[] = {R"({"a": 1})",   R"({"a": 1.0})", R"({"a": "1"})", R"({"a": true})",
                                    R"({"a": [1]})", R"({"b": 1})",   R"({})",         R"({"a": 1, "b": 1})"};
  for (const char* a : kDifferent) {
    for (const char* b : kDifferent) EXPECT_EQ(canonical_calls(one(a)) == canonical_calls(one(b)), a == b);
  }
  const ToolCall f{"", "f", "{}"}, g{"", "g", "{}"};
  EXPECT_NE(canonical_calls(Calls{f, g}), canonical_calls(Calls{g, f}));
  EXPECT_NE(canonical_calls(Calls{f, f}), canonical_calls(Calls{f}));
}

TEST(CanonicalCalls, ArgumentsThatAreNoObjectHaveNone) {
  for (const char* arguments : {"", "[]", "{", "1", "no"})
    EXPECT_EQ(canonical_calls(one(arguments)), std::nullopt);
}

TEST(CallMemory, RecallsEqualCalls) {
  CallMemory memory;
  memory.remember(one(R"({"a": 1, "b": 2})", "call_1"), "raw");
  EXPECT_EQ(memory.recall(one(R"({"b":2,"a":1})", "call_1")), Raw("raw"));
  EXPECT_EQ(memory.recall(one(R"({"b":2,"a":1})")), Raw("raw"));
  EXPECT_EQ(memory.recall(one(R"({"b":2,"a":1})", "call_2")), std::nullopt);
  EXPECT_EQ(memory.recall(one(R"({"b":2,"a":1.0})", "call_1")), std::nullopt);
  EXPECT_EQ(memory.recall({}), std::nullopt);
}

TEST(CallMemory, EqualCallsWrittenDifferently) {
  CallMemory memory;
  memory.remember(one("{}", "call_1"), "first");
  memory.remember(one("{}", "call_2"), "second");
  EXPECT_EQ(memory.recall(one("{}", "call_1")), Raw("first"));
  EXPECT_EQ(memory.recall(one("{}", "call_2")), Raw("second"));
  EXPECT_EQ(memory.recall(one("{}")), Raw("second"));  // the latest
  memory.remember(one("{}", "call_1"), "third");
  EXPECT_EQ(memory.recall(one("{}", "call_1")), Raw("third"));
  EXPECT_EQ(memory.num_entries(), 2u);
}

TEST(CallMemory, ParallelCalls) {
  CallMemory memory;
  const Calls calls = {{"1", "f", R"({"a": 1})"}, {"2", "g", "{}"}, {"3", "f", R"({"a": 1})"}};
  memory.remember(calls, "raw");
  EXPECT_EQ(memory.recall(calls), Raw("raw"));
  EXPECT_EQ(memory.recall(Calls{calls[0], calls[2], calls[1]}), std::nullopt);
  EXPECT_EQ(memory.recall(Calls{calls[0], calls[1]}), std::nullopt);
  EXPECT_EQ(memory.recall(Calls{{"", "f", R"({"a":1})"}, calls[1], calls[2]}), Raw("raw"));
  EXPECT_EQ(memory.recall(Calls{{"3", "f", R"({"a":1})"}, calls[1], {"1", "f", R"({"a":1})"}}), std::nullopt);
}

TEST(CallMemory, ForgetsTheLeastRecentlyUsed) {
  CallMemory memory({.max_entries = 2});
  memory.remember(one(R"({"a": 1})"), "1");
  memory.remember(one(R"({"a": 2})"), "2");
  EXPECT_EQ(memory.recall(one(R"({"a": 1})")), Raw("1"));
  memory.remember(one(R"({"a": 3})"), "3");
  EXPECT_EQ(memory.recall(one(R"({"a": 2})")), std::nullopt);
  EXPECT_EQ(memory.recall(one(R"({"a": 1})")), Raw("1"));
  EXPECT_EQ(memory.recall(one(R"({"a": 3})")), Raw("3"));
}

TEST(CallMemory, KeepsToItsBytes) {
  CallMemory memory({.max_bytes = 4096});
  memory.remember(one("{}"), std::string(5000, 'x'));
  EXPECT_EQ(memory.num_entries(), 0u);
  for (int i = 0; i < 100; ++i) {
    memory.remember(one("{\"a\": " + std::to_string(i % 40) + "}", std::to_string(i % 3)),
                    std::string(300, 'x'));
    EXPECT_LE(memory.num_bytes(), 4096u);
    EXPECT_GE(memory.num_entries(), 1u);
  }
  EXPECT_EQ(memory.recall(one("{\"a\": 19}")), Raw(std::string(300, 'x')));
}

TEST(CallMemory, FromSeveralThreads) {
  CallMemory memory({.max_entries = 50});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 500; ++i) {
        const Calls calls = one("{\"a\": " + std::to_string((i * 7 + t) % 80) + "}");
        if (i % 2 == 0) {
          memory.remember(calls, calls[0].arguments);
        } else if (const Raw raw = memory.recall(calls)) {
          EXPECT_EQ(*raw, calls[0].arguments);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.num_entries(), 50u);
}

}  // namespace
}  // namespace baleen
