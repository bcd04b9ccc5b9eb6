// Whole replies of every protocol, byte for byte: what a client reads off the wire. The goldens were checked
// by hand against the protocols' published types.
#include <gtest/gtest.h>

#include "base/file.h"
#include "sample_reply.h"

namespace baleen {
namespace {

struct Golden {
  std::string name;
  ApiRequest request;
  std::vector<Piece> pieces;
  ReplyEnd reason = ReplyEnd::kStopToken;
  std::string stop_string = {};
};

const std::vector<Piece> kCalls = {
    {{reasoning("Two "), reasoning("calls.")}, {}},
    {{content("Wait")}, {}},
    {{call_begin(0, "get_weather"), call_arguments(0, "{\"city\": \"Ja")}, {}},
    {{call_arguments(0, "èn\"}"), call_end(0), call_begin(1, "now")}, {}},
    {{call_arguments(1, "{}"), call_end(1)}, {}},
};

const std::vector<Piece> kText = {
    {{}, {{.token = {"\xE2\x82", -0.5}, .top = {{"\xE2\x82", -0.5}, {"a", -2}}}}},
    {{content("€")}, {{.token = {"\xAC", -0.25}, .top = {{"\xAC", -0.25}}}}},
    {{content("!")}, {{.token = {"!", 0}, .top = {}}}},
};

ApiRequest request(const Protocol* api, bool stream) {
  ApiRequest result{.protocol = api, .model = "m", .prompts = {"p"}, .stream = stream};
  result.include_usage = stream;
  return result;
}

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  const std::vector<std::pair<const Protocol*, std::string>> chats = {
      {&kChatCompletionsApi, "chat_completions"}, {&kResponsesApi, "responses"}, {&kMessagesApi, "messages"}};
  for (const auto& [api, name] : chats) {
    all.push_back({name + "_calls.sse", request(api, true), kCalls, ReplyEnd::kToolCalls});
    all.push_back({name + "_calls.json", request(api, false), kCalls, ReplyEnd::kToolCalls});
  }
  for (const bool stream : {true, false}) {
    const std::string suffix = stream ? ".sse" : ".json";
    for (const auto& [api, name] : {chats[0], chats[1], {&kCompletionsApi, "completions"}}) {
      ApiRequest with_logprobs = request(api, stream);
      with_logprobs.logprobs = true;
      all.push_back({name + "_logprobs" + suffix, with_logprobs, kText, ReplyEnd::kLength});
    }
    all.push_back(
        {"messages_stop" + suffix, request(&kMessagesApi, stream), kText, ReplyEnd::kStopString, "END"});
  }
  return all;
}

TEST(EncoderGolden, Replies) {
  for (const Golden& golden : goldens()) {
    const std::string path = "tests/protocols/goldens/" + golden.name;
    EXPECT_EQ(encoded(golden.request, golden.pieces, golden.reason, golden.stop_string) + "\n",
              read_text_file(path))
        << path;
  }
}

}  // namespace
}  // namespace baleen
