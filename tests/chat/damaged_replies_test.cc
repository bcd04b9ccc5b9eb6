// Replies damaged in every way we could think of: nothing crashes, no markup leaks, arguments are JSON
// objects, and it does not matter how the text was cut into pieces. Prints how many calls survive.
#include <gtest/gtest.h>

#include <cstdio>

#include "chat/call_memory.h"
#include "chat/dsml.h"
#include "chat/format.h"
#include "chat/python_json.h"
#include "damage.h"
#include "read_reply.h"

namespace baleen {
namespace {

using test::DamagedReply;
using test::ReadReply;

const std::string kEos(chat_format::kEos);

std::vector<DeclaredTool> tools() {
  const char* weather = R"({"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "options": {"type": "object"}, "tags": {"type": "array"}}})";
  const char* write =
      R"({"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}})";
  return {{"weather", parse_python_json(weather).value()},
          {"write_file", parse_python_json(write).value()},
          {"now", PythonJson()}};
}

struct Reply {
  ThinkingMode mode;
  std::string text;
  std::vector<ToolCall> calls;
};

Reply make_reply(ThinkingMode mode, const std::string& before, std::vector<ToolCall> calls) {
  return {mode, before + "\n\n" + render_tool_calls(calls).value().text + kEos, std::move(calls)};
}

std::vector<Reply> well_formed() {
  const ToolCall paris{"", "weather", R"({"city": "Paris"})"};
  const ToolCall kyoto{
      "", "weather",
      R"({"city": "京都 <b>\"x\"</b>", "days": 12, "options": {"k": [1.5, "v"], "on": true}, "tags": ["a", null, {"b": {}}]})"};
  const ToolCall file{"", "write_file", R"({"path": "a|b.md", "text": "line 1\n\n  line 2 </p>\n"})"};
  return {make_reply(ThinkingMode::kChat, "", {paris}),
          make_reply(ThinkingMode::kThinking, "I must look it up.</think>One moment.", {kyoto}),
          make_reply(ThinkingMode::kThinking, "a < b</think>", {paris, file, {"", "now", "{}"}})};
}

void expect_sound(const ReadReply& reply, const std::string& what) {
  EXPECT_FALSE(test::leaks_markup(reply.content)) << what << "\ncontent: " << reply.content;
  EXPECT_FALSE(test::leaks_markup(reply.reasoning)) << what << "\nreasoning: " << reply.reasoning;
  for (const auto& [name, arguments] : reply.calls) {
    EXPECT_TRUE(test::is_json_object(arguments)) << what << "\n" << name << ": " << arguments;
  }
}

/// Read whole; every other way to cut the text must give the same.
ReadReply read_every_way(const Reply& reply, const DamagedReply& damaged, bool cut) {
  static const std::vector<DeclaredTool> kTools = tools();
  const ReadReply whole = test::read_reply(damaged.text, kTools, {reply.mode, cut});
  for (const std::size_t piece_bytes : {1, 2, 3, 7, 31}) {
    const ReadReply pieces = test::read_reply(damaged.text, kTools, {reply.mode, cut, piece_bytes});
    EXPECT_EQ(pieces.content, whole.content) << damaged.what << "\n" << damaged.text;
    EXPECT_TRUE(pieces == whole) << damaged.what << " in pieces of " << piece_bytes << "\n" << damaged.text;
  }
  expect_sound(whole, damaged.what + "\n" + damaged.text);
  return whole;
}

std::optional<std::string> canonical(const std::vector<std::pair<std::string, std::string>>& calls) {
  std::vector<ToolCall> list;
  for (const auto& [name, arguments] : calls) list.push_back({"", name, arguments});
  return canonical_calls(list);
}

struct Tally {
  const char* what;
  int num_shapes = 0, num_recovered = 0, num_partly = 0, num_text = 0;
  int num_wrong = 0;  ///< replies with a call that was not meant, or not with these arguments

  void count(const ReadReply& read, const Reply& meant) {
    ++num_shapes;
    num_wrong += std::ranges::any_of(read.calls, [&](const auto& call) { return !is_meant(call, meant); });
    if (canonical(read.calls) == canonical_calls(meant.calls)) {
      ++num_recovered;
    } else if (read.calls.empty()) {
      ++num_text;
    } else {
      ++num_partly;
    }
  }

  static bool is_meant(const std::pair<std::string, std::string>& call, const Reply& meant) {
    return std::ranges::any_of(meant.calls, [&](const ToolCall& one) {
      return canonical({call}) == canonical_calls(std::vector{one});
    });
  }

  [[nodiscard]] double share_recovered() const { return 1.0 * num_recovered / num_shapes; }

  void print() const {
    const auto percent = [this](int num) { return 100.0 * num / num_shapes; };
    std::printf(
        "%-34s %5d shapes: all calls recovered %5.1f%%, some %5.1f%%, turned to text %5.1f%%; wrong %d\n",
        what, num_shapes, percent(num_recovered), percent(num_partly), percent(num_text), num_wrong);
  }
};

TEST(DamagedReplies, DamagedMarkupIsRepaired) {
  Tally tally{"markup damaged once"};
  for (const Reply& reply : well_formed()) {
    for (const DamagedReply& damaged : test::with_damaged_markup(reply.text)) {
      const ReadReply read = read_every_way(reply, damaged, false);
      if (!test::opens_block(damaged.text)) {  // a quotation would look the same
        EXPECT_TRUE(read.calls.empty()) << damaged.what;
        EXPECT_TRUE(read.content.find("DSML") != std::string::npos || read.num_dropped > 0) << damaged.what;
        continue;
      }
      const int num_before = tally.num_recovered;
      tally.count(read, reply);
      if (tally.num_recovered == num_before) std::printf("not recovered: %s\n", damaged.what.c_str());
    }
  }
  tally.print();
  EXPECT_LE(tally.num_wrong, 12);  // all of them damage to a value itself
  EXPECT_GE(tally.num_shapes, 500);
  EXPECT_GE(tally.share_recovered(), 0.95);
}

TEST(DamagedReplies, TwoDamagesAtOnce) {
  Tally tally{"markup damaged twice"};
  for (const Reply& reply : well_formed()) {
    const std::vector<DamagedReply> once = test::with_damaged_markup(reply.text);
    for (std::size_t i = 0; i < once.size(); i += 7) {
      const std::vector<DamagedReply> twice = test::with_damaged_markup(once[i].text);
      for (std::size_t j = i % 11; j < twice.size(); j += 11) {
        const ReadReply read =
            read_every_way(reply, {once[i].what + "; " + twice[j].what, twice[j].text}, false);
        if (test::opens_block(twice[j].text)) tally.count(read, reply);
      }
    }
  }
  tally.print();
  EXPECT_GE(tally.share_recovered(), 0.8);
}

TEST(DamagedReplies, OtherCallsAreNeverMistaken) {
  Tally tally{"names and structure damaged"};
  for (const Reply& reply : well_formed()) {
    for (const DamagedReply& damaged : test::with_other_calls(reply.text)) {
      const ReadReply read = read_every_way(reply, damaged, false);
      tally.count(read, reply);
      for (const auto& [name, arguments] : read.calls) {
        EXPECT_TRUE(std::ranges::any_of(tools(), [&](const DeclaredTool& tool) { return tool.name == name; }))
            << damaged.what << ": " << name;
      }
    }
  }
  tally.print();
}

TEST(DamagedReplies, TruncatedAtEveryByte) {
  for (const bool cut : {true, false}) {
    Tally tally{cut ? "truncated at every byte, cut" : "truncated at every byte, ended"};
    for (const Reply& reply : well_formed()) {
      for (std::size_t size = 0; size < reply.text.size(); ++size) {
        const ReadReply read = read_every_way(reply, {"truncated", reply.text.substr(0, size)}, cut);
        tally.count(read, reply);
        EXPECT_LE(read.calls.size(), reply.calls.size());
      }
    }
    tally.print();
  }
}

/// Whether the byte is of a tag, but not of a name in it: those are values too, and as easily damaged.
bool is_of_markup(std::string_view text, std::size_t at) {
  const std::size_t begin = text.rfind("<", at), token = text.find("｜DSML｜", begin);
  const bool is_tag =
      begin != std::string_view::npos && token != std::string_view::npos && token - begin <= 2;
  const std::size_t end = is_tag ? text.find('>', begin) : 0;
  const std::size_t name = text.find("name=\"", begin);
  const bool is_name = is_tag && name < end && at >= name + 6 && at < text.find('"', name + 6);
  return is_tag && at <= end && !is_name;
}

TEST(DamagedReplies, AByteMissingAnywhere) {
  Tally everywhere{"one byte missing"}, of_markup{"one byte of markup missing"};
  for (const Reply& reply : well_formed()) {
    for (std::size_t at = 0; at < reply.text.size(); ++at) {
      const ReadReply read =
          read_every_way(reply, {"byte " + std::to_string(at), std::string(reply.text).erase(at, 1)}, false);
      everywhere.count(read, reply);
      if (!is_of_markup(reply.text, at)) continue;
      const int num_before = of_markup.num_wrong;
      of_markup.count(read, reply);
      EXPECT_EQ(of_markup.num_wrong, num_before)
          << "byte " << at << ": " << (read.calls.empty() ? "" : read.calls[0].second);
    }
  }
  everywhere.print();
  of_markup.print();
}

TEST(DamagedReplies, UndamagedAreRecoveredToTheByte) {
  for (const Reply& reply : well_formed()) {
    const ReadReply read = read_every_way(reply, {"undamaged", reply.text}, false);
    EXPECT_EQ(canonical(read.calls), canonical_calls(reply.calls));
    EXPECT_EQ(read.num_repairs, 0u);
    EXPECT_EQ(read.raw_calls, "\n\n" + render_tool_calls(reply.calls).value().text);
  }
}

}  // namespace
}  // namespace baleen
