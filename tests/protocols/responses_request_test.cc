// Responses requests.
#include <map>

#include "protocols/sealed_text.h"
#include "request_cases.h"

namespace baleen {
namespace {

const std::string kBase = R"("model": "m", "input": "hi")";

ApiRequest with(const std::string& fields) {
  return accepted(parse_responses, "{" + kBase + ", " + fields + "}");
}

TEST(ResponsesRequest, StringInput) {
  const ApiRequest request =
      with(R"("instructions": "be brief", "max_output_tokens": 9, "stream": true, "store": true,
    "temperature": 1, "metadata": {"a": "b"}, "reasoning": {"effort": "high", "summary": "auto"},
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"], "top_logprobs": 2)");
  EXPECT_EQ(request.protocol, &kResponsesApi);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[0].role, Role::kSystem);
  EXPECT_EQ(request.messages[0].content, "be brief");
  EXPECT_EQ(request.messages[1].content, "hi");
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_TRUE(request.stream && request.logprobs);
  EXPECT_EQ(request.sampling.num_logprobs, 2);
  EXPECT_EQ(request.thinking_mode, ThinkingMode::kThinking);
  EXPECT_EQ(request.effort, "high");
  EXPECT_EQ(with(R"("reasoning": {"effort": "none"})").thinking_mode, ThinkingMode::kChat);
}

TEST(ResponsesRequest, ItemsBecomeTurns) {
  const ApiRequest request = accepted(parse_responses, R"({"model": "m", "input": [
    {"role": "developer", "content": "d"},
    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
    {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "r1"}]},
    {"type": "message", "id": "msg", "status": "completed", "role": "assistant",
     "content": [{"type": "output_text", "text": "t1", "annotations": []}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{\"x\":1}"},
    {"type": "function_call_output", "call_id": "c1", "output": "o1"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "o2"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r2"}], "encrypted_content": null},
    {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c3", "output": ""},
    {"role": "assistant", "content": "t2"},
    {"role": "assistant", "content": "t3"},
    {"role": "user", "content": "again"}]})");
  const std::vector<Message>& m = request.messages;
  ASSERT_EQ(m.size(), 10u);
  EXPECT_EQ(m[0].role, Role::kSystem);
  EXPECT_EQ(m[1].content, "a\n\nb");
  EXPECT_EQ(m[2].role, Role::kAssistant);
  EXPECT_EQ(m[2].reasoning_content, "r1");
  EXPECT_EQ(m[2].content, "t1");
  ASSERT_EQ(m[2].tool_calls.size(), 2u);
  EXPECT_EQ(m[2].tool_calls[1].id, "c2");
  EXPECT_EQ(m[2].tool_calls[1].arguments, "{\"x\":1}");
  EXPECT_EQ(m[3].role, Role::kTool);
  EXPECT_EQ(m[3].tool_call_id, "c1");
  EXPECT_EQ(m[4].content, "o2");
  EXPECT_EQ(m[5].reasoning_content, "r2");
  EXPECT_EQ(m[5].tool_calls.size(), 1u);
  EXPECT_EQ(m[7].content, "t2");
  EXPECT_EQ(m[8].content, "t3");
}

TEST(ResponsesRequest, ToolsAndFormat) {
  const std::string tools = R"("tools": [{"type": "function", "name": "f", "parameters": {"type": "object"},
    "strict": true, "description": "d"}, {"type": "function", "name": "g", "parameters": null, "strict": null}])";
  const ApiRequest request = with(tools + R"(, "tool_choice": {"type": "function", "name": "f"},
    "parallel_tool_calls": false)");
  // One order whatever the client's, without what is not for the model.
  EXPECT_EQ(dump_python_json(request.messages[0].tools[0]),
            R"({"name": "f", "description": "d", "parameters": {"type": "object"}})");
  EXPECT_EQ(dump_python_json(request.messages[0].tools[1]), R"({"name": "g"})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(request.tool_choice.name, "f");
  EXPECT_FALSE(request.tool_choice.parallel);
  const ApiRequest allowed = with(tools + R"(, "tool_choice": {"type": "allowed_tools", "mode": "auto",
    "tools": [{"type": "function", "name": "g"}]})");
  EXPECT_EQ(allowed.tools.size(), 1u);
  EXPECT_EQ(allowed.tool_choice.kind, ToolChoice::Kind::kAuto);
  const ApiRequest schema =
      with(R"("text": {"verbosity": "low", "format": {"type": "json_schema", "name": "s",
    "schema": {"type": "object"}, "strict": true}})");
  EXPECT_EQ(schema.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(schema.response_format.name, "s");
  EXPECT_EQ(schema.response_format.holding, ResponseFormat::Holding::kStrict);
}

TEST(ResponsesRequest, Refusals) {
  const auto with_item = [](const std::string& item) { return R"("input": [)" + item + "]"; };
  expect_refusals(
      parse_responses, kBase,
      {
          {R"("input": null)", "input", "found null"},
          {R"("input": [])", "input", "is empty"},
          {R"("input": 7)", "input", "a string or an array"},
          {with_item("7"), "input[0]", "an object"},
          {with_item(R"({"role": "wizard", "content": "x"})"), "input[0].role", "system, developer or tool"},
          {with_item(R"({"role": "user"})"), "input[0].content", "found nothing"},
          {with_item(R"({"type": "function_call", "name": "f", "arguments": "{}"})"), "input[0].call_id",
           "a string"},
          {with_item(R"({"type": "function_call", "call_id": "c", "name": "f", "arguments": "3"})"),
           "input[0].arguments", "not of a number"},
          {with_item(R"({"type": "function_call_output", "call_id": "c"})"), "input[0].output",
           "found nothing"},
          {with_item(R"({"role": "assistant", "content": "x"})"), "input", "ends with an assistant message"},
          {R"("instructions": [])", "instructions", "a string"},
          {R"("previous_response_id": "r")", "previous_response_id", "with id \"r\" not found"},
          {R"("conversation": "c")", "conversation", "not conversations"},
          {R"("background": true)", "background", "nothing in the background"},
          {R"("prompt": {"id": "p"})", "prompt", "keeps no prompts"},
          {R"("context_management": [{"type": "compaction"}])", "context_management", "does not shorten"},
          {R"("tools": [{"type": 7}])", "tools[0].type", "a string"},
          {with_item(R"({"type": "web_search_call"})"), "input", "is empty"},
          {R"("tools": [{"type": "web_search"}], "tool_choice": "required")", "tool_choice", "no tools"},
          {R"("reasoning": {"summary": "short"})", "reasoning.summary", "auto, concise"},
          {R"("include": [7])", "include[0]", "a string"},
          {R"("tools": [{"type": "function"}])", "tools[0].name", "a string"},
          {R"("tool_choice": "required")", "tool_choice", "no tools"},
          {R"("tool_choice": {"type": "function", "name": "f"})", "tool_choice", "not among"},
          {R"("tool_choice": {"type": "file_search"})", "tool_choice.type", "function or allowed_tools"},
          {R"("text": {"format": {"type": "grammar"}})", "text.format.type",
           "json_schema or regex, found \"grammar\""},
          {R"("text": {"format": {"type": "json_schema", "schema": {}}})", "text.format.name",
           "found nothing"},
          {R"("reasoning": {"effort": 7})", "reasoning.effort", "a string"},
          {R"("max_output_tokens": 0)", "max_output_tokens", "from 1"},
          {R"("top_logprobs": 21)", "top_logprobs", "from 0 to 20"},
      });
}

/// One response of a user's question, its reasoning and its answer.
class OneKept final : public EarlierResponses {
 public:
  std::optional<std::vector<ConversationTurn>> conversation(std::string_view id) const override {
    if (id != "resp_1") return std::nullopt;
    return std::vector<ConversationTurn>{turn_};
  }
  std::optional<PythonJson> item(std::string_view id) const override {
    if (id != "msg_1_0") return std::nullopt;
    return turn_->back();
  }

 private:
  ConversationTurn turn_ = std::make_shared<const PythonJson::Array>(
      *parse_python_json(R"([{"role": "user", "content": "q"}, {"type": "message", "id": "msg_1_0",
        "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}])")
           .value()
           .as_array());
};

TEST(ResponsesRequest, GoesOnFromAnEarlierResponse) {
  const OneKept kept;
  ApiContext context = test_context();
  context.earlier = &kept;
  const ApiRequest next =
      accepted(parse_responses, R"({"input": "next", "previous_response_id": "resp_1"})", context);
  ASSERT_EQ(next.messages.size(), 3u);
  EXPECT_EQ(next.messages[1].content, "a");
  EXPECT_EQ(next.messages[2].content, "next");
  EXPECT_TRUE(next.keeping.store);
  EXPECT_EQ(next.keeping.turns.size(), 1u);
  EXPECT_EQ(next.keeping.input.size(), 1u);

  const ApiRequest referring =
      accepted(parse_responses, R"({"store": false, "input": [{"role": "user", "content": "q"},
    {"type": "item_reference", "id": "msg_1_0"}, {"role": "user", "content": "next"}]})",
               context);
  ASSERT_EQ(referring.messages.size(), 3u);
  EXPECT_EQ(referring.messages[1].content, "a");
  EXPECT_FALSE(referring.keeping.store);
  EXPECT_TRUE(referring.keeping.seal_reasoning);

  const auto lost = parse_responses(R"({"input": [{"type": "item_reference", "id": "msg_2_0"}]})", context);
  ASSERT_TRUE(std::holds_alternative<ApiError>(lost));
  EXPECT_EQ(std::get<ApiError>(lost).status, 404);
  EXPECT_EQ(std::get<ApiError>(lost).param, "input");
  const auto gone = parse_responses(R"({"input": "x", "previous_response_id": "resp_2"})", context);
  ASSERT_TRUE(std::holds_alternative<ApiError>(gone));
  EXPECT_EQ(std::get<ApiError>(gone).code, "previous_response_not_found");
}

TEST(ResponsesRequest, SealedReasoningComesBack) {
  ApiContext context = test_context();
  context.client_key = "k";
  const std::string body =
      R"({"input": [{"role": "user", "content": "q"}, {"type": "reasoning", "summary": [],
    "encrypted_content": ")" +
      seal_text("because", "k") + R"("}, {"role": "assistant", "content": "a"},
    {"role": "user", "content": "next"}]})";
  EXPECT_EQ(accepted(parse_responses, body, context).messages[1].reasoning_content, "because");
  context.client_key = "another";
  const ApiRequest moved = accepted(parse_responses, body, context);
  EXPECT_EQ(moved.messages[1].reasoning_content, "");
  EXPECT_EQ(moved.messages[1].content, "a");
  EXPECT_EQ(moved.ignored,
            (std::vector<std::string>{"input[1] (encrypted_content that cannot be verified)"}));
}

TEST(ResponsesRequest, ResultsOfToolsThatReturnedNothingAndOfTheOtherApi) {
  const ApiRequest request = accepted(parse_responses, R"({"input": [{"role": "user", "content": "q"},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": null},
    {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
    {"role": "tool", "tool_call_id": "c2", "content": "done"}]})");
  ASSERT_EQ(request.messages.size(), 5U);
  EXPECT_EQ(request.messages[2].role, Role::kTool);
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.messages[4].role, Role::kTool);
  EXPECT_EQ(request.messages[4].tool_call_id, "c2");
  EXPECT_EQ(request.messages[4].content, "done");
}

TEST(ResponsesRequest, HostedAndCustomToolsArePassedOver) {
  const ApiRequest request =
      with(R"("tools": [{"type": "web_search_preview"}, {"type": "custom", "name": "c"},
    {"type": "function", "name": "f"}])");
  EXPECT_EQ(request.tools.size(), 1u);
  EXPECT_EQ(request.ignored,
            (std::vector<std::string>{"tools[0] (web_search_preview)", "tools[1] (custom)"}));
}

/// Those of a request whose input is these items and a question behind them.
std::vector<Message> messages_of(const std::string& items, std::vector<std::string>* ignored = nullptr) {
  ApiRequest request = accepted(parse_responses, R"({"input": [{"role": "user", "content": "q"}, )" + items +
                                                     R"(, {"role": "user", "content": "go on"}]})");
  if (ignored != nullptr) *ignored = request.ignored;
  return request.messages;
}

TEST(ResponsesRequest, ItemsOfOtherKindsDoNotEndAConversation) {
  std::vector<std::string> ignored;
  for (const char* type : {"additional_tools", "web_search_call", "compaction", "compaction_trigger",
                           "image_generation_call", "mcp_list_tools", "telepathy_call", "telepathy"}) {
    const std::string item = std::string(R"({"type": ")") + type + R"(", "id": "x", "role": "developer",
      "tools": [], "encrypted_content": "abc", "action": {"type": "search", "query": "w"}})";
    EXPECT_EQ(messages_of(item, &ignored).size(), 2u) << type;
    EXPECT_EQ(ignored, std::vector<std::string>{std::string("input[1] (") + type + ")"});
  }
  // A text is one, whoever wrote it.
  const std::vector<Message> m = messages_of(
      R"({"type": "agent_message", "author": "a", "content": [{"type": "input_text", "text": "done"}]})");
  ASSERT_EQ(m.size(), 3u);
  EXPECT_EQ(m[1].role, Role::kUser);
  EXPECT_EQ(m[1].content, "done");
}

TEST(ResponsesRequest, CallsOfOtherKindsAreShownWithTheirOutputs) {
  struct Pair {
    const char *call, *output, *name, *arguments, *result;
  };
  const std::vector<Pair> pairs = {
      {R"({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin\n"})",
       R"({"type": "custom_tool_call_output", "call_id": "c", "output": "ok"})", "apply_patch",
       R"({"input": "*** Begin\n"})", "ok"},
      {R"({"type": "tool_search_call", "call_id": "c", "status": "completed", "execution": "client",
           "arguments": {"query": "browser"}})",
       R"({"type": "tool_search_output", "call_id": "c", "tools": [{"name": "open_page"}]})", "tool_search",
       R"({"query": "browser"})", R"({"tools": [{"name": "open_page"}]})"},
      {R"({"type": "local_shell_call", "call_id": "c", "status": "completed",
           "action": {"type": "exec", "command": ["ls"]}})",
       R"({"type": "local_shell_call_output", "id": "c",
           "output": [{"type": "input_text", "text": "a.txt"}]})",
       "local_shell", R"({"action": {"type": "exec", "command": ["ls"]}})", "a.txt"},
      {R"({"type": "telepathy_call", "call_id": "c", "name": "read mind", "arguments": "{\"whose\": 1}"})",
       R"({"type": "telepathy_call_output", "call_id": "c", "output": {"mood": "good"}})", "read_mind",
       R"({"whose": 1})", R"({"mood": "good"})"},
      {R"({"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}})",
       R"({"type": "computer_call_output", "call_id": "c",
           "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBO"}})",
       "computer", R"({"action": {"type": "screenshot"}})", "[image: left out, this model reads text]"}};
  for (const Pair& pair : pairs) {
    const std::vector<Message> m = messages_of(std::string(pair.call) + "," + pair.output);
    ASSERT_EQ(m.size(), 4u) << pair.call;
    ASSERT_EQ(m[1].tool_calls.size(), 1u) << pair.call;
    EXPECT_EQ(m[1].tool_calls[0].name, pair.name);
    EXPECT_EQ(m[1].tool_calls[0].arguments, pair.arguments);
    EXPECT_EQ(m[2].role, Role::kTool);
    EXPECT_EQ(m[2].tool_call_id, m[1].tool_calls[0].id);
    EXPECT_EQ(m[2].content, pair.result);
  }
  // A provider's call carries its own output.
  const std::vector<Message> hosted = messages_of(
      R"({"type": "mcp_call", "id": "m", "name": "lookup", "arguments": "{\"k\": 1}", "output": "v"})");
  ASSERT_EQ(hosted.size(), 4u);
  EXPECT_EQ(hosted[1].tool_calls[0].arguments, R"({"k": 1})");
  EXPECT_EQ(hosted[2].content, "v");
}

TEST(ResponsesRequest, PicturesAndFilesHaveATextInTheirPlace) {
  std::vector<std::string> ignored;
  const std::vector<Message> m = messages_of(
      R"({"type": "function_call", "call_id": "c", "name": "view", "arguments": ""},
         {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a plot"},
           {"type": "input_image", "image_url": "data:image/png;base64,iVBO"},
           {"type": "input_file", "filename": "a.pdf", "file_data": "JVBE"}]})",
      &ignored);
  EXPECT_EQ(m[1].tool_calls[0].arguments, "{}");
  EXPECT_EQ(m[2].content,
            "a plot\n\n[image: left out, this model reads text]\n\n"
            "[file \"a.pdf\": left out, this model reads text]");
  EXPECT_EQ(ignored, (std::vector<std::string>{"input[2].output[1] (input_image)",
                                               "input[2].output[2] (input_file)"}));
}

TEST(ResponsesRequest, ResultsWithoutAnIdAreFoundByName) {
  const std::vector<Message> answered = messages_of(
      R"({"type": "function_call", "call_id": "c1", "name": "create", "namespace": "goal", "arguments": "{}"},
         {"type": "function_call_output", "name": "create", "namespace": "goal", "output": "made"})");
  ASSERT_EQ(answered.size(), 4u);
  EXPECT_EQ(answered[2].role, Role::kTool);
  EXPECT_EQ(answered[2].tool_call_id, "c1");
  // One that no call waits for was put in from outside.
  const std::vector<Message> alone = messages_of(
      R"({"type": "function_call", "call_id": "c1", "name": "create", "namespace": "goal", "arguments": "{}"},
         {"type": "function_call_output", "call_id": "c1", "output": "made"},
         {"type": "function_call_output", "id": "fco", "name": "create", "namespace": "goal",
          "output": "later"},
         {"type": "function_call_output", "output": "nameless"})");
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_EQ(alone[3].role, Role::kUser);
  EXPECT_EQ(alone[3].content, "Result of goal__create:\nlater");
  EXPECT_EQ(alone[4].role, Role::kTool);
}

/// As a reply that a limit ended left it in the client's list of items.
TEST(ResponsesRequest, ACallThatWasCutIsNoPartOfTheConversation) {
  const std::string cut =
      R"({"type": "function_call", "call_id": "c1", "name": "run", "status": "incomplete",
          "arguments": "{\"cmd\": \"rm -rf /srv"})";
  EXPECT_EQ(messages_of(cut).size(), 2U);
  const std::vector<Message> answered =
      messages_of(cut + R"(, {"type": "function_call_output", "call_id": "c1", "output": "not run"})");
  EXPECT_EQ(answered[answered.size() - 2].tool_call_id, "c1");
}

TEST(ResponsesRequest, ToolsOfAGroupAreDeclaredFlat) {
  const std::string tools = R"("tools": [
    {"type": "namespace", "name": "mcp__files__", "description": "Files of the host.", "tools": [
      {"type": "function", "name": "read", "description": "Reads one.", "strict": false,
       "parameters": {"type": "object"}},
      {"type": "custom", "name": "exec"},
      {"type": "function", "name": "write", "parameters": {"type": "object"}}]},
    {"type": "function", "name": "read"},
    {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read"}]}])";
  const ApiRequest request =
      with(tools + R"(, "tool_choice": {"type": "function", "namespace": "mcp__files__",
    "name": "write"})");
  ASSERT_EQ(request.tools.size(), 3u);
  EXPECT_EQ(request.tools[0].name, "mcp__files__read");
  EXPECT_EQ(request.tools[2].name, "read");
  EXPECT_EQ(dump_python_json(request.messages[0].tools[0]),
            R"({"name": "mcp__files__read", "description": "Files of the host.\n\nReads one.", )"
            R"("parameters": {"type": "object"}})");
  EXPECT_EQ(request.tool_choice.name, "mcp__files__write");
  ASSERT_EQ(request.grouped_tools.size(), 2u);
  EXPECT_EQ(request.grouped_tools[1].group, "mcp__files__");
  EXPECT_EQ(request.grouped_tools[1].name, "write");
  EXPECT_EQ(
      request.ignored,
      (std::vector<std::string>{"tools[0] (namespace: flattened)", "tools[0].tools[1] (custom)",
                                "tools[2] (namespace: flattened)", "tools[2].tools[0] (its name is taken)"}));
  // Calls in the history are named as the prompt declares them.
  const std::vector<Message> m = messages_of(
      R"({"type": "function_call", "call_id": "c", "namespace": "mcp__files__", "name": "read",
          "arguments": "[]"},
         {"type": "function_call_output", "call_id": "c", "output": "text"})");
  EXPECT_EQ(m[1].tool_calls[0].name, "mcp__files__read");
  EXPECT_EQ(m[1].tool_calls[0].arguments, "{}");
}

}  // namespace
}  // namespace baleen
