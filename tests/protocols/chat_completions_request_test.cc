// Chat completions requests: every field that is read, and every refusal.
#include "request_cases.h"

namespace baleen {
namespace {

const std::string kBase = R"("model": "m", "messages": [{"role": "user", "content": "hi"}])";

ApiRequest with(const std::string& fields, const ApiContext& context = test_context()) {
  return accepted(parse_chat_completions, "{" + kBase + ", " + fields + "}", context);
}

ApiRequest with_messages(const std::string& messages) {
  return accepted(parse_chat_completions, R"({"model": "m", "messages": )" + messages + "}");
}

std::string tool(const std::string& function) {
  return R"({"type": "function", "function": )" + function + "}";
}

TEST(ChatCompletionsRequest, Defaults) {
  const ApiRequest request = accepted(parse_chat_completions, "{" + kBase + "}");
  EXPECT_EQ(request.protocol, &kChatCompletionsApi);
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.messages.size(), 1u);
  EXPECT_EQ(request.messages[0].role, Role::kUser);
  EXPECT_EQ(request.messages[0].content, "hi");
  EXPECT_EQ(request.thinking_mode, ThinkingMode::kChat);
  EXPECT_EQ(request.temperature, std::nullopt);
  EXPECT_EQ(request.top_p, std::nullopt);
  EXPECT_EQ(request.max_tokens, std::nullopt);
  EXPECT_EQ(request.num_choices, 1);
  EXPECT_EQ(request.sampling.seed, std::nullopt);
  EXPECT_EQ(request.sampling.num_logprobs, SamplingParams::kNoLogprobs);
  EXPECT_TRUE(request.sampling.validate(100).empty());
  EXPECT_FALSE(request.stream || request.include_usage || request.logprobs);
  EXPECT_TRUE(request.show_reasoning);
}

TEST(ChatCompletionsRequest, Sampling) {
  const ApiRequest request = with(R"("temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": -1,
    "repetition_penalty": 1.1, "frequency_penalty": -2, "presence_penalty": 2, "n": 4, "priority": 7,
    "logit_bias": {"3": -100, "99": 1.5}, "stop": ["a", "b"], "max_tokens": 10, "logprobs": true,
    "top_logprobs": 5, "stream": true, "stream_options": {"include_usage": true}, "include_reasoning": false,
    "user": "u", "metadata": {"k": "v"}, "store": true, "parallel_tool_calls": false, "never_heard_of": {})");
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(request.sampling.frequency_penalty, -2);
  EXPECT_EQ(request.sampling.presence_penalty, 2);
  EXPECT_EQ(request.sampling.num_logprobs, 5);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<std::int32_t, double>{{3, -100}, {99, 1.5}}));
  EXPECT_EQ(request.num_choices, 4);
  EXPECT_EQ(request.priority, 7);
  EXPECT_EQ(request.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.max_tokens, 10);
  EXPECT_TRUE(request.logprobs && request.stream && request.include_usage);
  EXPECT_FALSE(request.show_reasoning);
  EXPECT_FALSE(request.tool_choice.parallel);
}

TEST(ChatCompletionsRequest, NullIsAbsentAndWholeFloatsAreIntegers) {
  const ApiRequest request =
      with(R"("temperature": null, "tools": null, "tool_choice": null, "stop": null, "seed": 5.0,
    "max_completion_tokens": 1e3, "max_tokens": 1000, "top_k": -1, "stop": "x", "response_format": null)");
  EXPECT_EQ(request.temperature, std::nullopt);
  EXPECT_EQ(request.sampling.seed, 5u);
  EXPECT_EQ(request.max_tokens, 1000);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.stops, std::vector<std::string>{"x"});
}

TEST(ChatCompletionsRequest, Messages) {
  const ApiRequest request = with_messages(R"([
    {"role": "developer", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]},
    {"role": "user", "content": "add", "name": "ann"},
    {"role": "assistant", "content": null, "reasoning_content": "think", "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{\"x\": 1}"}},
      {"id": "b", "type": "function", "function": {"name": "now", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "2"}]},
    {"role": "tool", "tool_call_id": "b", "content": "noon"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "reasoning": "older name"},
    {"role": "latest_reminder", "content": "r"},
    {"role": "user", "content": ""}])");
  const std::vector<Message>& m = request.messages;
  ASSERT_EQ(m.size(), 8u);
  EXPECT_EQ(m[0].role, Role::kSystem);
  EXPECT_EQ(m[0].content, "be\n\nbrief");
  EXPECT_EQ(m[2].reasoning_content, "think");
  ASSERT_EQ(m[2].tool_calls.size(), 2u);
  EXPECT_EQ(m[2].tool_calls[0].id, "a");
  EXPECT_EQ(m[2].tool_calls[0].name, "add");
  EXPECT_EQ(m[2].tool_calls[0].arguments, "{\"x\": 1}");
  EXPECT_EQ(m[2].tool_calls[1].arguments, "{}");
  EXPECT_EQ(m[3].role, Role::kTool);
  EXPECT_EQ(m[3].tool_call_id, "a");
  EXPECT_EQ(m[3].content, "2");
  EXPECT_EQ(m[5].content, "no");
  EXPECT_EQ(m[5].reasoning_content, "older name");
  EXPECT_EQ(m[6].role, Role::kLatestReminder);
}

TEST(ChatCompletionsRequest, PrefixIsContinued) {
  const ApiRequest request = with_messages(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "content": "Once", "prefix": true}])");
  EXPECT_TRUE(request.messages.back().wo_eos);
}

TEST(ChatCompletionsRequest, Tools) {
  const std::string tools = R"("tools": [)" +
                            tool(R"({"name": "f", "parameters": {"type": "object"}, "strict": true})") + "," +
                            tool(R"({"description": "d", "name": "g"})") + "]";
  const ApiRequest request = with(tools);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  ASSERT_EQ(request.messages[0].tools.size(), 2u);
  // As the client wrote it, key order included.
  EXPECT_EQ(dump_python_json(request.messages[0].tools[0]),
            R"({"name": "f", "parameters": {"type": "object"}, "strict": true})");
  EXPECT_EQ(dump_python_json(request.messages[0].tools[1]), R"({"description": "d", "name": "g"})");
  ASSERT_EQ(request.tools.size(), 2u);
  EXPECT_EQ(request.tools[0].name, "f");
  EXPECT_EQ(dump_python_json(request.tools[0].parameters), R"({"type": "object"})");
  EXPECT_TRUE(request.tools[1].parameters.is_null());
  EXPECT_TRUE(request.tools[0].strict);
  EXPECT_FALSE(request.tools[1].strict);
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kAuto);

  EXPECT_EQ(with(tools + R"(, "tool_choice": "none")").tool_choice.kind, ToolChoice::Kind::kNone);
  EXPECT_EQ(with(tools + R"(, "tool_choice": "required")").tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(with(tools + R"(, "tool_choice": "any")").tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(with(tools + R"(, "tool_choice": {"type": "auto"})").tool_choice.kind, ToolChoice::Kind::kAuto);
  const ApiRequest named =
      with(tools + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  EXPECT_EQ(named.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(named.tool_choice.name, "g");

  const ApiRequest allowed = with(tools + R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools":
    {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}})");
  EXPECT_EQ(allowed.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(allowed.messages[0].tools.size(), 2u);
  ASSERT_EQ(allowed.tools.size(), 1u);
  EXPECT_EQ(allowed.tools[0].name, "g");
}

TEST(ChatCompletionsRequest, ResponseFormat) {
  EXPECT_EQ(with(R"("response_format": {"type": "text"})").messages.size(), 1u);
  const ApiRequest object = with(R"("response_format": {"type": "json_object"})");
  EXPECT_EQ(object.response_format.kind, ResponseFormat::Kind::kJsonObject);
  EXPECT_EQ(dump_python_json(object.messages[0].response_format), R"({"type": "object"})");
  const ApiRequest schema = with(R"("response_format": {"type": "json_schema",
    "json_schema": {"name": "s", "strict": true, "schema": {"b": 1, "a": 2.50}}})");
  EXPECT_EQ(schema.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(schema.response_format.name, "s");
  EXPECT_EQ(schema.response_format.holding, ResponseFormat::Holding::kStrict);
  EXPECT_EQ(dump_python_json(schema.response_format.schema), R"({"b": 1, "a": 2.5})");
  EXPECT_EQ(dump_python_json(schema.messages[0].response_format), R"({"b": 1, "a": 2.5})");
}

TEST(ChatCompletionsRequest, Thinking) {
  struct Case {
    std::string fields;
    ThinkingMode mode;
    std::string effort;
  };
  const auto chat = ThinkingMode::kChat, thinking = ThinkingMode::kThinking;
  const std::string none, high = "high", max = "max";
  const std::vector<Case> cases = {
      {R"("reasoning_effort": "none")", chat, none},
      {R"("reasoning_effort": "minimal")", chat, none},
      {R"("reasoning_effort": "low")", thinking, high},
      {R"("reasoning_effort": "medium")", thinking, high},
      {R"("reasoning_effort": "high")", thinking, high},
      {R"("reasoning_effort": "xhigh")", thinking, max},
      {R"("reasoning_effort": "max")", thinking, max},
      {R"("reasoning_effort": "ultra")", thinking, max},
      {R"("thinking": {"type": "enabled"})", thinking, high},
      {R"("thinking": {"type": "disabled"})", chat, none},
      {R"("thinking": {"type": "enabled"}, "reasoning_effort": "max")", thinking, max},
      {R"("thinking": {"type": "enabled"}, "reasoning_effort": "minimal")", thinking, high},
      {R"("thinking": {"type": "disabled"}, "reasoning_effort": "low")", chat, none},
      {R"("thinking_mode": "thinking")", thinking, high},
      {R"("thinking_mode": "chat")", chat, none},
      {R"("chat_template_kwargs": {"thinking": true})", thinking, high},
      {R"("chat_template_kwargs": {"enable_thinking": true})", thinking, high},
      {R"("chat_template_kwargs": {"enable_thinking": false}, "thinking": {"type": "disabled"})", chat, none},
  };
  for (const Case& c : cases) {
    const ApiRequest request = with(c.fields);
    EXPECT_EQ(request.thinking_mode, c.mode) << c.fields;
    EXPECT_EQ(request.effort, c.effort) << c.fields;
  }
  ApiContext thinks = test_context();
  thinks.think_by_default = true;
  EXPECT_EQ(with(R"("n": 1)", thinks).thinking_mode, thinking);
  EXPECT_EQ(with(R"("thinking_mode": "chat")", thinks).thinking_mode, chat);
}

TEST(ChatCompletionsRequest, EffortsOfTheOfficialProfile) {
  ApiContext context = test_context();
  context.prompt_profile = PromptProfile::kOfficial;
  const auto chat = ThinkingMode::kChat, thinking = ThinkingMode::kThinking;
  const struct {
    std::string fields;
    ThinkingMode mode;
    std::string effort;
  } kCases[] = {
      {R"("reasoning_effort": "none")", chat, ""},
      {R"("reasoning_effort": "minimal")", thinking, "low"},
      {R"("reasoning_effort": "low")", thinking, "low"},
      {R"("reasoning_effort": "medium")", thinking, "high"},
      {R"("reasoning_effort": "high")", thinking, "high"},
      {R"("reasoning_effort": "xhigh")", thinking, "high"},
      {R"("reasoning_effort": "max")", thinking, "max"},
      {R"("reasoning_effort": "ultra")", thinking, "max"},
      {R"("n": 1)", chat, ""},
      {R"("thinking": {"type": "enabled"})", thinking, "high"},
      {R"("thinking": {"type": "disabled"}, "reasoning_effort": "max")", chat, ""},
      {R"("chat_template_kwargs": {"thinking": true, "reasoning_effort": "low"})", thinking, "low"},
  };
  for (const auto& [fields, mode, effort] : kCases) {
    const ApiRequest request = with(fields, context);
    EXPECT_EQ(request.thinking_mode, mode) << fields;
    EXPECT_EQ(request.effort, effort) << fields;
  }
  context.think_by_default = true;
  EXPECT_EQ(with(R"("n": 1)", context).effort, "high");
}

TEST(ChatCompletionsRequest, Refusals) {
  const std::string f = tool(R"({"name": "f"})");
  expect_refusals(
      parse_chat_completions, kBase,
      {
          {R"("temperature": "hot")", "temperature", "expected a number from 0 to 2, found \"hot\""},
          {R"("temperature": 2.1)", "temperature", "found 2.1"},
          {R"("temperature": NaN)", "temperature", "found NaN"},
          {R"("temperature": -1e999)", "temperature", "found -Infinity"},
          {R"("top_p": 0)", "top_p", "above 0"},
          {R"("top_p": 1.01)", "top_p", "from 0 to 1"},
          {R"("top_k": -2)", "top_k", "whole number"},
          {R"("top_k": 1.5)", "top_k", "found 1.5"},
          {R"("top_k": 99999999999999999999)", "top_k", "whole number"},
          {R"("min_p": 2)", "min_p", "from 0 to 1"},
          {R"("repetition_penalty": 0)", "repetition_penalty", "above 0"},
          {R"("frequency_penalty": 3)", "frequency_penalty", "from -2 to 2"},
          {R"("presence_penalty": -3)", "presence_penalty", "from -2 to 2"},
          {R"("seed": 1e300)", "seed", "whole number"},
          {R"("seed": "7")", "seed", "found \"7\""},
          {R"("n": 0)", "n", "from 1 to 4"},
          {R"("n": 5)", "n", "from 1 to 4"},
          {R"("priority": 1e9)", "priority", "whole number"},
          {R"("max_tokens": 0)", "max_tokens", "from 1 to"},
          {R"("max_tokens": 1e12)", "max_tokens", "from 1 to"},
          {R"("max_completion_tokens": -1)", "max_completion_tokens", "from 1 to"},
          {R"("max_tokens": 1, "max_completion_tokens": 2)", "max_tokens", "contradicts"},
          {R"("stop": 7)", "stop", "a string or an array"},
          {R"("stop": "")", "stop", "1 to 4096 bytes"},
          {R"("stop": ["a", 7])", "stop[1]", "found 7"},
          {R"("stop": [1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7])", "stop", "17 elements, where at most 16"},
          {R"("logit_bias": [])", "logit_bias", "expected an object"},
          {R"("logit_bias": {"100": 1})", "logit_bias", "ids run from 0 to 99"},
          {R"("logit_bias": {"x": 1})", "logit_bias", "\"x\" is no token id"},
          {R"("logit_bias": {"1": 101})", "logit_bias.1", "from -100 to 100"},
          {R"("top_logprobs": 3)", "top_logprobs", "only with"},
          {R"("logprobs": 3)", "logprobs", "true or false"},
          {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs", "from 0 to 20"},
          {R"("stream": "yes")", "stream", "true or false"},
          {R"("stream_options": {})", "stream_options", "only with"},
          {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage",
           "true or false"},
          {R"("metadata": {"k": 1})", "metadata", "expected strings"},
          {R"("metadata": 1)", "metadata", "an object"},
          {R"("reasoning_effort": "huge")", "reasoning_effort", "xhigh, max or ultra, found \"huge\""},
          {R"("thinking": "on")", "thinking", "an object"},
          {R"("thinking": {"type": "on"})", "thinking.type", "enabled or disabled"},
          {R"("thinking_mode": "on")", "thinking_mode", "thinking or chat"},
          {R"("chat_template_kwargs": {"other": 1})", "chat_template_kwargs.other", "no such argument"},
          {R"("chat_template_kwargs": {"thinking": 1})", "chat_template_kwargs.thinking", "true or false"},
          {R"("thinking": {"type": "enabled"}, "thinking_mode": "chat")", "thinking_mode", "contradicts"},
          {R"("thinking": {"type": "enabled"}, "reasoning_effort": "none")", "reasoning_effort",
           "contradicts"},
          {R"("functions": [{}])", "functions[0].name", "a string"},
          {R"("functions": [{"name": "f"}], "tools": [)" + f + "]", "functions", "send one of them"},
          {R"("functions": [{"name": "f"}], "function_call": "any")", "function_call", "none, auto or"},
          {R"("functions": [{"name": "f"}], "function_call": {"name": "g"})", "function_call", "not among"},
          {R"("function_call": {"name": "f"})", "function_call", "goes with functions alone"},
          {R"("audio": {})", "audio", "text alone"},
          {R"("modalities": ["text", "audio"])", "modalities", "text alone"},
          {R"("web_search_options": {})", "web_search_options", "declare a tool"},
          {R"("tools": {})", "tools", "an array"},
          {R"("tools": [7])", "tools[0]", "an object"},
          {R"("tools": [{"type": 7}])", "tools[0].type", "a string"},
          {R"("tools": [{"type": "function"}])", "tools[0].function", "found nothing"},
          {R"("tools": [)" + tool(R"({"name": "a b"})") + "]", "tools[0].function.name", "letters, digits"},
          {R"("tools": [)" + tool(R"({"name": ""})") + "]", "tools[0].function.name", "letters, digits"},
          {R"("tools": [)" + tool(R"({"name": "f", "parameters": [1]})") + "]",
           "tools[0].function.parameters", "an object"},
          {R"("tools": [)" + tool(R"({"name": "f", "strict": "yes"})") + "]", "tools[0].function.strict",
           "true or false"},
          {R"("tools": [)" + f + "," + f + "]", "tools[1].function.name", "\"f\" names another tool already"},
          {R"("tool_choice": "required")", "tool_choice", "no tools are declared"},
          {R"("tool_choice": "sometimes")", "tool_choice", "none, auto or required"},
          {R"("tool_choice": 1)", "tool_choice", "an object"},
          {R"("tools": [)" + f + R"(], "tool_choice": )" + tool(R"({"name": "g"})"), "tool_choice",
           "\"g\" is not among the tools"},
          {R"("tools": [)" + f + R"(], "tool_choice": {"type": "custom"})", "tool_choice.type",
           "\"function\""},
          {R"("tools": [)" + f +
               R"(], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
            "tools": [)" +
               tool(R"({"name": "g"})") + "]}}",
           "tool_choice.allowed_tools.tools", "not among"},
          {R"("response_format": "json")", "response_format", "an object"},
          {R"("response_format": {"type": "xml"})", "response_format.type",
           "json_schema or regex, found \"xml\""},
          {R"("response_format": {"type": "json_schema"})", "response_format.json_schema", "an object"},
          {R"("response_format": {"type": "json_schema", "json_schema": {"schema": {}}})",
           "response_format.json_schema.name", "found nothing"},
          {R"("response_format": {"type": "json_schema", "json_schema": {"name": "s"}})",
           "response_format.json_schema.schema", "a JSON schema, found nothing"},
      });
}

TEST(ChatCompletionsRequest, RefusedMessages) {
  const std::string user = R"({"role": "user", "content": "q"})";
  const auto with_call = [&](const std::string& call) {
    return R"("messages": [{"role": "assistant", "tool_calls": [)" + call + "]}," + user + "]";
  };
  expect_refusals(
      parse_chat_completions, kBase,
      {
          {R"("messages": [])", "messages", "is empty"},
          {R"("messages": null)", "messages", "found null"},
          {R"("messages": {})", "messages", "an array"},
          {R"("messages": ["hi"])", "messages[0]", "an object"},
          {R"("messages": [{"content": "x"}])", "messages[0].role", "a string"},
          {R"("messages": [{"role": "wizard", "content": "x"}])", "messages[0].role",
           "or tool, found \"wizard\""},
          {R"("messages": [{"role": "function", "content": "x"}])", "messages[0].name", "a string"},
          {R"("messages": [{"role": "user"}])", "messages[0].content", "found nothing"},
          {R"("messages": [{"role": "user", "content": 7}])", "messages[0].content",
           "content parts, found 7"},
          {R"("messages": [{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text",
           "a string"},
          {R"("messages": [{"role": "user", "content": ["x"]}])", "messages[0].content[0]", "an object"},
          {R"("messages": [)" + user + R"(, {"role": "assistant", "content": "a"}])", "messages",
           "\"prefix\": true"},
          {R"("messages": [{"role": "assistant", "content": "a", "prefix": true}, )" + user + "]",
           "messages[0].prefix", "only the last"},
          {R"("messages": [{"role": "assistant", "content": "a", "reasoning_content": 1}, )" + user + "]",
           "messages[0].reasoning_content", "a string"},
          {R"("messages": [{"role": "assistant", "function_call": {}}, )" + user + "]",
           "messages[0].function_call.name", "a string"},
          {with_call("7"), "messages[0].tool_calls[0]", "an object"},
          {with_call("{}"), "messages[0].tool_calls[0].function", "name and arguments"},
          {with_call(R"({"type": "custom"})"), "messages[0].tool_calls[0].custom", "name and arguments"},
          {with_call(R"({"type": "telepathy"})"), "messages[0].tool_calls[0].type", "\"function\""},
          {with_call(R"({"function": {"arguments": "{}"}})"), "messages[0].tool_calls[0].function.name",
           "found nothing"},
          {with_call(R"({"function": {"name": "f", "arguments": 7}})"),
           "messages[0].tool_calls[0].function.arguments", "found 7"},
          {with_call(R"({"function": {"name": "f", "arguments": "[1]"}})"),
           "messages[0].tool_calls[0].function.arguments", "JSON of an object, not of an array"},
          {R"("messages": [{"role": "assistant", "prefix": true, "tool_calls": [)" +
               tool(R"({"name": "f", "arguments": "{}"})") + "]}]",
           "messages", "ends with tool calls"},
      });
}

TEST(ChatCompletionsRequest, AToolMayReturnNothing) {
  const ApiRequest request = with_messages(
      R"([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
          {"role": "tool", "tool_call_id": "a", "content": null}])");
  EXPECT_EQ(request.messages[1].tool_call_id, "a");
  EXPECT_EQ(request.messages[1].content, "");
}

TEST(ChatCompletionsRequest, CallsWithoutArgumentsAreWrittenInManyWays) {
  for (const char* arguments :
       {"null", "\"\"", "\" \"", "\"null\"", "\"[]\"", "\" [ ] \"", "[]", "{}", "\"{}\""}) {
    const ApiRequest request = with_messages(
        R"([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": )" +
        std::string(arguments) + R"(}}]}, {"role": "tool", "tool_call_id": "a", "content": "r"}])");
    EXPECT_EQ(request.messages[0].tool_calls[0].arguments, "{}") << arguments;
  }
  const ApiRequest absent = with_messages(
      R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
          {"role": "tool", "content": "r"}])");
  EXPECT_EQ(absent.messages[0].tool_calls[0].arguments, "{}");
  const ApiRequest object = with_messages(
      R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"k": 1}}}]},
          {"role": "tool", "content": "r"}])");
  EXPECT_EQ(object.messages[0].tool_calls[0].arguments, R"({"k": 1})");
}

TEST(ChatCompletionsRequest, PartsOfOtherKindsHaveATextInTheirPlace) {
  const ApiRequest request = with_messages(R"([{"role": "user", "content": [{"type": "text", "text": "see"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
    {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBE"}},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
    {"type": "telepathy", "mood": "good"}, {"type": "thought", "text": "kept"}]}])");
  EXPECT_EQ(request.messages[0].content,
            "see\n\n[image: left out, this model reads text]\n\n[audio: left out, this model reads text]\n\n"
            "[file \"a.pdf\": left out, this model reads text]\n\ninside\n\n[telepathy {\"mood\": "
            "\"good\"}]\n\nkept");
  EXPECT_EQ(request.ignored, (std::vector<std::string>{
                                 "messages[0].content[1] (image_url)", "messages[0].content[2] (input_audio)",
                                 "messages[0].content[3] (file)", "messages[0].content[5] (telepathy)"}));
}

TEST(ChatCompletionsRequest, NothingStandsInForWhatTheModelWroteBesideText) {
  const ApiRequest request = with_messages(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"},
      {"type": "image_url", "image_url": {"url": "https://x.example"}}]}, {"role": "user", "content": "p"}])");
  EXPECT_EQ(request.messages[1].content, "a");
  EXPECT_EQ(request.ignored, (std::vector<std::string>{"messages[1].content[0] (thinking)",
                                                       "messages[1].content[2] (image_url)"}));
}

TEST(ChatCompletionsRequest, PartsWithinPartsAreReadToADepth) {
  std::string part = R"({"type": "text", "text": "inside"})";
  for (int i = 0; i < 4; ++i) part = R"({"type": "tray", "content": [)" + part + "]}";
  const auto content = [](const std::string& text) {
    return with_messages(R"([{"role": "user", "content": [)" + text + "]}]").messages[0].content;
  };
  EXPECT_EQ(content(part), "inside");
  for (int i = 0; i < 100; ++i) part = R"({"type": "tray", "content": [)" + part + "]}";
  EXPECT_TRUE(content(part).starts_with("[tray {\"content\": [")) << content(part);
}

TEST(ChatCompletionsRequest, OlderFunctionsAreTools) {
  const std::string functions =
      R"("functions": [{"name": "f", "description": "d", "parameters": {"type": "object"}}, {"name": "g"}])";
  const ApiRequest request = with(functions);
  EXPECT_TRUE(request.older_calls);
  EXPECT_FALSE(request.tool_choice.parallel);
  ASSERT_EQ(request.tools.size(), 2u);
  EXPECT_EQ(dump_python_json(request.messages[0].tools[0]),
            R"({"name": "f", "description": "d", "parameters": {"type": "object"}})");
  EXPECT_EQ(with(functions + R"(, "function_call": "none")").tool_choice.kind, ToolChoice::Kind::kNone);
  EXPECT_EQ(with(functions + R"(, "function_call": {"name": "g"})").tool_choice.name, "g");
  EXPECT_FALSE(with(R"("functions": [], "function_call": "auto")").older_calls);

  const ApiRequest history = with_messages(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
    {"role": "function", "name": "f", "content": "2"}])");
  ASSERT_EQ(history.messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(history.messages[1].tool_calls[0].arguments, R"({"x": 1})");
  EXPECT_EQ(history.messages[2].role, Role::kTool);
}

TEST(ChatCompletionsRequest, ToolsOfOtherKindsArePassedOver) {
  const ApiRequest request =
      with(R"("tools": [{"type": "telepathy"}, {"type": "custom", "custom": {"name": "c"}}])");
  EXPECT_TRUE(request.tools.empty());
  EXPECT_EQ(request.ignored, (std::vector<std::string>{"tools[0] (telepathy)", "tools[1] (custom)"}));
}

}  // namespace
}  // namespace baleen
