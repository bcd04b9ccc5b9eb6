// Anthropic messages requests.
#include "request_cases.h"

namespace baleen {
namespace {

const std::string kBase = R"("model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}])";

ApiRequest with(const std::string& fields) {
  return accepted(parse_messages, "{" + kBase + ", " + fields + "}");
}

TEST(MessagesRequest, Fields) {
  const ApiRequest request =
      with(R"("system": "s", "stop_sequences": ["a"], "top_k": 3, "temperature": 0.5, "top_p": 1,
    "stream": true, "metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"})");
  EXPECT_EQ(request.protocol, &kMessagesApi);
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.stops, std::vector<std::string>{"a"});
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.thinking_mode, ThinkingMode::kChat);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  EXPECT_EQ(request.messages[0].content, "s");
}

TEST(MessagesRequest, Blocks) {
  const ApiRequest request = accepted(parse_messages, R"({"model": "m", "max_tokens": 1,
    "system": [{"type": "text", "text": "s1", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "s2"}],
    "messages": [
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "any"},
        {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "c"},
        {"type": "tool_use", "id": "u1", "name": "f", "input": {"k": 12345678901234567890123, "z": [1.0]}},
        {"type": "tool_use", "id": "u2", "name": "g", "input": {}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "u1", "content": [{"type": "text", "text": "r"}]},
        {"type": "tool_result", "tool_use_id": "u2", "content": "gone", "is_error": true},
        {"type": "tool_result", "tool_use_id": "u3", "content": "Error: x", "is_error": true},
        {"type": "tool_result", "tool_use_id": "u4"},
        {"type": "text", "text": "next"}]}]})");
  const std::vector<Message>& m = request.messages;
  ASSERT_EQ(m.size(), 9u);
  EXPECT_EQ(m[0].content, "s1\n\ns2");
  EXPECT_EQ(m[1].content, "a");
  EXPECT_EQ(m[2].content, "b");
  EXPECT_EQ(m[3].reasoning_content, "t");
  EXPECT_EQ(m[3].content, "c");
  EXPECT_FALSE(m[3].wo_eos);
  ASSERT_EQ(m[3].tool_calls.size(), 2u);
  EXPECT_EQ(m[3].tool_calls[0].arguments, R"({"k": 12345678901234567890123, "z": [1.0]})");
  EXPECT_EQ(m[4].role, Role::kTool);
  EXPECT_EQ(m[4].tool_call_id, "u1");
  EXPECT_EQ(m[4].content, "r");
  EXPECT_EQ(m[5].content, "Error: gone");
  EXPECT_EQ(m[6].content, "Error: x");
  EXPECT_EQ(m[7].content, "");
  EXPECT_EQ(m[8].role, Role::kUser);
  EXPECT_EQ(m[8].content, "next");
}

TEST(MessagesRequest, LastAssistantMessageIsContinued) {
  const ApiRequest request = accepted(parse_messages, R"({"model": "m", "max_tokens": 1, "messages": [
    {"role": "user", "content": "q"}, {"role": "assistant", "content": "Once"}]})");
  EXPECT_TRUE(request.messages.back().wo_eos);
}

TEST(MessagesRequest, Tools) {
  const std::string tools = R"("tools": [{"name": "f", "input_schema": {"type": "object"}, "description": "d",
    "cache_control": {"type": "ephemeral"}}, {"type": "custom", "name": "g", "input_schema": {}}])";
  const ApiRequest request = with(tools);
  EXPECT_EQ(dump_python_json(request.messages[0].tools[0]),
            R"({"name": "f", "description": "d", "parameters": {"type": "object"}})");
  EXPECT_EQ(request.tools.size(), 2u);
  using Kind = ToolChoice::Kind;
  EXPECT_EQ(with(tools + R"(, "tool_choice": {"type": "any"})").tool_choice.kind, Kind::kRequired);
  EXPECT_EQ(with(tools + R"(, "tool_choice": {"type": "none"})").tool_choice.kind, Kind::kNone);
  const ApiRequest automatic =
      with(tools + R"(, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true})");
  EXPECT_EQ(automatic.tool_choice.kind, Kind::kAuto);
  EXPECT_FALSE(automatic.tool_choice.parallel);
  EXPECT_EQ(with(tools + R"(, "tool_choice": {"type": "tool", "name": "g"})").tool_choice.name, "g");
}

TEST(MessagesRequest, ThinkingAndFormat) {
  const auto mode = [](const std::string& fields) { return with(fields).thinking_mode; };
  EXPECT_EQ(mode(R"("thinking": {"type": "enabled", "budget_tokens": 1024})"), ThinkingMode::kThinking);
  EXPECT_EQ(mode(R"("thinking": {"type": "adaptive"})"), ThinkingMode::kThinking);
  EXPECT_EQ(mode(R"("thinking": {"type": "disabled"}, "output_config": {"effort": "max"})"),
            ThinkingMode::kChat);
  EXPECT_EQ(mode(R"("output_config": {"effort": "high"})"), ThinkingMode::kChat);
  const ApiRequest max =
      with(R"("thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "max",
    "format": {"type": "json_schema", "schema": {"type": "object"}}})");
  EXPECT_EQ(max.effort, "max");
  EXPECT_FALSE(max.show_reasoning);
  EXPECT_EQ(max.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(with(R"("output_format": {"type": "json_schema", "schema": {}})").response_format.kind,
            ResponseFormat::Kind::kJsonSchema);
}

TEST(MessagesRequest, CountingNeedsNoLimit) {
  const std::string body = R"({"model": "m", "messages": [{"role": "user", "content": "hi"}]})";
  EXPECT_EQ(accepted(parse_count_tokens, body).messages.size(), 1u);
  EXPECT_EQ(refused(parse_messages, body).param, "max_tokens");
}

TEST(MessagesRequest, Refusals) {
  const auto with_block = [](const std::string& role, const std::string& block) {
    return R"("messages": [{"role": ")" + role + R"(", "content": [)" + block + "]}]";
  };
  expect_refusals(
      parse_messages, kBase,
      {
          {R"("max_tokens": 0)", "max_tokens", "from 1"},
          {R"("max_tokens": "5")", "max_tokens", "found \"5\""},
          {R"("messages": [])", "messages", "is empty"},
          {R"("system": "s", "messages": [])", "messages", "is empty"},
          {R"("messages": 1)", "messages", "an array"},
          {R"("messages": [1])", "messages[0]", "an object"},
          {R"("messages": [{"role": "wizard", "content": ""}])", "messages[0].role", "user or assistant"},
          {R"("messages": [{"role": "user"}])", "messages[0].content", "found nothing"},
          {R"("messages": [{"role": "user", "content": []}])", "messages[0].content", "empty array"},
          {with_block("user", "7"), "messages[0].content[0]", "an object"},
          {with_block("user", R"({"type": "text"})"), "messages[0].content[0].text", "a string"},
          {with_block("user", R"({"type": "tool_result"})"), "messages[0].content[0].tool_use_id",
           "a string"},
          {with_block("assistant", R"({"type": "tool_use", "id": "a", "name": "f", "input": 7})"),
           "messages[0].content[0].input", "found 7"},
          {with_block("assistant", R"({"type": "tool_use", "id": "a", "name": "f", "input": "[1]"})"),
           "messages[0].content[0].input", "not of an array"},
          {with_block("assistant", R"({"type": "tool_use", "id": "a", "name": "f", "input": {}})"),
           "messages", "ends with tool calls"},
          {R"("system": [{"type": 7}])", "system[0].type", "a string"},
          {R"("stop_sequences": "x")", "stop_sequences", "an array"},
          {R"("stop_sequences": [""])", "stop_sequences[0]", "1 to 4096"},
          {R"("tools": [{"name": "f"}])", "tools[0].input_schema", "a JSON schema"},
          {R"("tools": [{"type": 7, "name": "t"}])", "tools[0].type", "a string"},
          {R"("tool_choice": {"type": "any"})", "tool_choice", "no tools"},
          {R"("tool_choice": {"type": "all"})", "tool_choice.type", "any, tool or none"},
          {R"("tool_choice": "auto")", "tool_choice", "an object"},
          {R"("thinking": {"type": "enabled"})", "thinking.budget_tokens", "found nothing"},
          {R"("thinking": {"type": "maybe"})", "thinking.type", "adaptive"},
          {R"("thinking": {"type": "adaptive", "display": "all"})", "thinking.display", "omitted"},
          {R"("output_config": {"effort": "huge"})", "output_config.effort",
           "xhigh, max or ultra, found \"huge\""},
          {R"("output_config": {"format": {"type": "json_schema"}})", "output_config.format.schema",
           "a JSON schema"},
          {R"("mcp_servers": [{}])", "mcp_servers", "connects to no others"},
          {R"("container": "c")", "container", "no containers"},
          {R"("metadata": 1)", "metadata", "an object"},
      });
}

ApiRequest with_blocks(const std::string& user, const std::string& assistant = "") {
  return accepted(parse_messages,
                  R"({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "q"},
    {"role": "assistant", "content": [)" +
                      assistant + R"(]}, {"role": "user", "content": [)" + user + "]}]}");
}

TEST(MessagesRequest, ResultsOfAnyContentAreText) {
  const auto result = [](const std::string& content) {
    return with_blocks(R"({"type": "tool_result", "tool_use_id": "t", "content": )" + content + "}",
                       R"({"type": "tool_use", "id": "t", "name": "Read", "input": []})")
        .messages.back()
        .content;
  };
  EXPECT_EQ(result(R"([{"type": "document", "title": "Report", "source": {"type": "text",
    "media_type": "text/plain", "data": "page one"}}])"),
            "Report\n\npage one");
  EXPECT_EQ(result(R"([{"type": "document", "source": {"type": "content", "content": [
    {"type": "text", "text": "a"}, {"type": "image"}]}}])"),
            "a\n\n[image: left out, this model reads text]");
  EXPECT_EQ(
      result(R"([{"type": "document", "title": "t.pdf", "source": {"type": "base64", "data": "JVBE"}}])"),
      "[document \"t.pdf\": left out, this model reads text]");
  EXPECT_EQ(result(R"([{"type": "search_result", "source": "https://x.example", "title": "t",
    "content": [{"type": "text", "text": "found"}]}])"),
            "t\nhttps://x.example\n\nfound");
  EXPECT_EQ(result(R"([{"type": "text", "text": "a plot"}, {"type": "image", "source": {"type": "base64",
    "media_type": "image/png", "data": "iVBO"}}])"),
            "a plot\n\n[image: left out, this model reads text]");
  EXPECT_EQ(result(R"([{"type": "tool_reference", "tool_name": "open_page"}])"),
            R"([tool_reference {"tool_name": "open_page"}])");
  EXPECT_EQ(result("[]"), "");
  EXPECT_EQ(result("null"), "");
}

TEST(MessagesRequest, AProvidersOwnCallsAreShownWithTheirResults) {
  const ApiRequest request = with_blocks(R"({"type": "text", "text": "next"})", R"(
    {"type": "text", "text": "I look."},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "w"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result",
      "url": "https://x.example", "title": "T", "encrypted_content": "abc"}]},
    {"type": "mcp_tool_use", "id": "s2", "name": "echo", "server_name": "x", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "s2", "is_error": true,
      "content": [{"type": "text", "text": "no"}]},
    {"type": "text", "text": "Found."},
    {"type": "server_tool_use", "id": "s3", "name": "web_search", "input": {}},
    {"type": "compaction", "content": "Summary."},
    {"type": "telepathy", "mood": "good"})");
  const std::vector<Message>& m = request.messages;
  ASSERT_EQ(m.size(), 7u);
  EXPECT_EQ(m[1].content, "I look.");
  ASSERT_EQ(m[1].tool_calls.size(), 1u);
  EXPECT_EQ(m[1].tool_calls[0].name, "web_search");
  EXPECT_EQ(m[2].role, Role::kTool);
  EXPECT_EQ(m[2].content, R"([web_search_result {"url": "https://x.example", "title": "T"}])");
  EXPECT_EQ(m[3].tool_calls[0].name, "echo");
  EXPECT_EQ(m[4].content, "Error: no");
  EXPECT_EQ(m[5].content, "Found.\n\nSummary.");
  EXPECT_TRUE(m[5].tool_calls.empty());
  EXPECT_EQ(request.ignored,
            (std::vector<std::string>{"messages[1].content[2].content[0] (web_search_result)",
                                      "messages[1].content[6] (server_tool_use)",
                                      "messages[1].content[8] (telepathy)"}));
}

TEST(MessagesRequest, BlocksOfOtherKindsHaveATextInTheirPlace) {
  const ApiRequest request = with_blocks(
      R"({"type": "image", "source": {"type": "base64", "data": "iVBO"}},
         {"type": "container_upload", "file_id": "f"},
         {"type": "telepathy"}, {"type": "text", "text": "what is it?"})");
  ASSERT_EQ(request.messages.size(), 6u);
  EXPECT_EQ(request.messages[2].content, "[image: left out, this model reads text]");
  EXPECT_EQ(request.messages[3].content, "[file: left out, this model reads text]");
  EXPECT_EQ(request.messages[4].content, "[telepathy: left out, this model reads text]");
  EXPECT_EQ(request.ignored.size(), 3u);
}

TEST(MessagesRequest, ToolsOfOtherKindsArePassedOver) {
  const ApiRequest request = accepted(parse_messages, "{" + kBase + R"(, "tools": [
    {"type": "telepathy_20990101", "name": "t"}, {"name": "f", "input_schema": {"type": "object"}}]})");
  EXPECT_EQ(request.tools.size(), 1u);
  EXPECT_EQ(request.ignored, std::vector<std::string>{"tools[0] (telepathy_20990101)"});
}

}  // namespace
}  // namespace baleen
