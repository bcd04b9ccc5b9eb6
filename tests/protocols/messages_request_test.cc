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
  EXPECT_EQ(request.api, Api::kMessages);
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
  EXPECT_EQ(max.effort, ReasoningEffort::kMax);
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
          {with_block("user", R"({"type": "image"})"), "messages[0].content[0].type",
           "\"image\" is not taken here"},
          {with_block("user", R"({"type": "text"})"), "messages[0].content[0].text", "a string"},
          {with_block("user", R"({"type": "tool_result"})"), "messages[0].content[0].tool_use_id",
           "a string"},
          {with_block("user",
                      R"({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]})"),
           "messages[0].content[0].content[0].type", "reads text"},
          {with_block("assistant", R"({"type": "image"})"), "messages[0].content[0].type",
           "text, thinking or tool_use"},
          {with_block("assistant", R"({"type": "tool_use", "id": "a", "name": "f"})"),
           "messages[0].content[0].input", "an object"},
          {with_block("assistant", R"({"type": "tool_use", "id": "a", "name": "f", "input": {}})"),
           "messages", "ends with tool calls"},
          {R"("system": [{"type": "image"}])", "system[0].type", "reads text"},
          {R"("stop_sequences": "x")", "stop_sequences", "an array"},
          {R"("stop_sequences": [""])", "stop_sequences[0]", "1 to 4096"},
          {R"("tools": [{"name": "f"}])", "tools[0].input_schema", "a JSON schema"},
          {R"("tools": [{"type": "telepathy_1", "name": "t"}])", "tools[0].type", "runs no tools of its own"},
          {R"("tools": [{"name": "f", "input_schema": {"type": "string"}}])", "tools[0].input_schema.type",
           "\"object\""},
          {R"("tool_choice": {"type": "any"})", "tool_choice", "no tools"},
          {R"("tool_choice": {"type": "all"})", "tool_choice.type", "any, tool or none"},
          {R"("tool_choice": "auto")", "tool_choice", "an object"},
          {R"("thinking": {"type": "enabled"})", "thinking.budget_tokens", "found nothing"},
          {R"("thinking": {"type": "maybe"})", "thinking.type", "adaptive"},
          {R"("thinking": {"type": "adaptive", "display": "all"})", "thinking.display", "omitted"},
          {R"("output_config": {"effort": "huge"})", "output_config.effort", "xhigh or max"},
          {R"("output_config": {"format": {"type": "json_schema"}})", "output_config.format.schema",
           "a JSON schema"},
          {R"("mcp_servers": [{}])", "mcp_servers", "connects to no others"},
          {R"("container": "c")", "container", "no containers"},
          {R"("metadata": 1)", "metadata", "an object"},
      });
}

}  // namespace
}  // namespace baleen
