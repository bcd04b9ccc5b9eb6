#include "protocols/chat_messages.h"
#include "protocols/conversation.h"
#include "protocols/protocol.h"
#include "protocols/requested_ending.h"
#include "protocols/requested_format.h"
#include "protocols/requested_sampling.h"
#include "protocols/requested_thinking.h"
#include "protocols/requested_tools.h"
#include "protocols/shared_fields.h"
#include "protocols/text_content.h"

namespace baleen {
namespace {

/// `functions`, which `tools` took the place of: the same objects without their wrapping, and calls one at a
/// time.
void read_older_functions(const RequestFields& fields, RequestedTools& tools, ApiRequest& request) {
  const PythonJson::Array* list = fields.list("functions", kMaxTools);
  if (list == nullptr || list->empty()) return;
  if (!tools.declared.empty())
    return fields.refuse("functions", "is the older form of tools; send one of them");
  request.older_calls = true;
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    const RequestFields function((*list)[i], fields.path("functions", i), fields.error());
    add_tool(function, "parameters", (*list)[i], tools);
  }
}

RequestedTools read_chat_tools(const RequestFields& fields, ApiRequest& request) {
  RequestedTools tools{.functions = {}, .declared = {}, .profile = request.prompt_profile};
  const PythonJson::Array* list = fields.list("tools", kMaxTools);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !fields.error(); ++i) {
    const RequestFields tool((*list)[i], fields.path("tools", i), fields.error());
    if (pass_over_tool(tool, "function", request)) continue;
    if (tool.required_text("type").empty()) break;
    const auto function = tool.fields("function");
    if (!function) {
      tool.expected("function", "an object with a name");
      break;
    }
    // The inner object goes into the prompt as it came: that is what the model was trained on.
    add_tool(*function, "parameters", *tool.find("function"), tools, tool.find("namespace"));
  }
  read_older_functions(fields, tools, request);
  return tools;
}

/// {"type": "function", "function": {"name": ...}}
std::string function_name(const RequestFields& wrapped, const PromptProfile& profile) {
  if (wrapped.required_text("type") != "function") wrapped.expected("type", "\"function\"");
  const auto function = wrapped.fields("function");
  if (!function) return wrapped.expected("function", "an object with a name"), "";
  return required_tool_name(*function, profile, wrapped.find("namespace"));
}

void read_allowed_tools(const RequestFields& choice, ApiRequest& request) {
  const auto allowed = choice.fields("allowed_tools");
  if (!allowed) return choice.expected("allowed_tools", "an object with mode and tools");
  set_tool_choice(*allowed, "mode", allowed->required_text("mode"), request.tool_choice);
  const PythonJson::Array* list = allowed->list("tools", kMaxTools);
  if (list == nullptr) return allowed->expected("tools", "an array");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list->size() && !choice.error(); ++i) {
    names.push_back(function_name(RequestFields((*list)[i], allowed->path("tools", i), choice.error()),
                                  request.prompt_profile));
  }
  allow_only(*allowed, "tools", names, request.tools);
}

/// `function_call`, the older form of `tool_choice`.
void read_older_choice(const RequestFields& fields, ApiRequest& request) {
  request.tool_choice.parallel = false;
  const PythonJson* value = fields.find("function_call");
  if (value == nullptr) return;
  if (const std::string* word = value->as_string()) {
    if (*word != "none" && *word != "auto") fields.expected("function_call", "none, auto or {\"name\": ...}");
    if (*word == "none") request.tool_choice.kind = ToolChoice::Kind::kNone;
  } else if (const auto choice = fields.fields("function_call")) {
    request.tool_choice.kind = ToolChoice::Kind::kNamed;
    request.tool_choice.name = required_tool_name(*choice, request.prompt_profile);
  }
  check_tool_choice(fields, "function_call", request);
}

void read_chat_tool_choice(const RequestFields& fields, ApiRequest& request) {
  if (request.older_calls) return read_older_choice(fields, request);
  if (const PythonJson* older = fields.find("function_call");
      older != nullptr &&
      (older->as_string() == nullptr || (*older->as_string() != "auto" && *older->as_string() != "none"))) {
    return fields.refuse("function_call", "is the older form of tool_choice, and goes with functions alone");
  }
  request.tool_choice.parallel = fields.flag("parallel_tool_calls").value_or(true);
  const PythonJson* value = fields.find("tool_choice");
  if (value == nullptr) return;
  if (const std::string* word = value->as_string()) {
    set_tool_choice(fields, "tool_choice", *word, request.tool_choice);
  } else if (const auto choice = fields.fields("tool_choice")) {
    const std::string type = choice->required_text("type");
    if (type == "allowed_tools") {
      read_allowed_tools(*choice, request);
    } else if (is_choice_word(type)) {  // {"type": "auto"}, as in messages
      set_tool_choice(*choice, "type", type, request.tool_choice);
    } else {
      request.tool_choice.kind = ToolChoice::Kind::kNamed;
      request.tool_choice.name = function_name(*choice, request.prompt_profile);
    }
  }
  check_tool_choice(fields, "tool_choice", request);
}

/// OpenAI's reasoning_effort; DeepSeek's thinking and thinking_mode; OpenRouter's reasoning; the template
/// arguments of other servers.
void read_thinking(const RequestFields& fields, const ApiContext& context, ApiRequest& request) {
  RequestedThinking thinking{.profile = request.prompt_profile,
                             .effort = read_effort(fields, "reasoning_effort", request.prompt_profile)};
  request.show_reasoning = fields.flag("include_reasoning").value_or(true);
  if (const auto object = fields.fields("reasoning")) {
    set_effort(*object, "effort", thinking);
    if (const auto on = object->flag("enabled")) set_switch(*object, "enabled", *on, thinking);
    if (object->flag("exclude").value_or(false)) request.show_reasoning = false;
    set_thinking_budget(*object, "max_tokens", request);
  }
  if (const auto object = fields.fields("thinking")) {
    const std::string type = object->required_text("type");
    if (type != "enabled" && type != "disabled") object->expected("type", "enabled or disabled");
    set_switch(fields, "thinking", type == "enabled", thinking);
    set_thinking_budget(*object, "budget_tokens", request);
  }
  if (const std::string* mode = fields.text("thinking_mode")) {
    if (*mode != "thinking" && *mode != "chat") fields.expected("thinking_mode", "thinking or chat");
    set_switch(fields, "thinking_mode", *mode == "thinking", thinking);
  }
  read_template_switches(fields, thinking);
  read_thinking_budget(fields, request);
  settle_thinking(fields, "reasoning_effort", thinking, context, request);
}

void read_logprobs(const RequestFields& fields, ApiRequest& request) {
  request.logprobs = fields.flag("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, SamplingParams::kMaxLogprobs);
  if (top && !request.logprobs) return fields.refuse("top_logprobs", "only with \"logprobs\": true");
  if (request.logprobs) request.sampling.num_logprobs = static_cast<int>(top.value_or(0));
}

void read_max_tokens(const RequestFields& fields, ApiRequest& request) {
  request.max_tokens = fields.integer("max_completion_tokens", 1, kMaxTokensLimit);
  const auto older = fields.integer("max_tokens", 1, kMaxTokensLimit);
  if (older && request.max_tokens.value_or(*older) != *older) {
    fields.refuse("max_tokens", "contradicts max_completion_tokens; send one of them");
  }
  if (older) request.max_tokens = older;
}

void check_modalities(const RequestFields& fields) {
  const PythonJson::Array* modalities = fields.list("modalities", kMaxTools);
  for (std::size_t i = 0; modalities != nullptr && i < modalities->size(); ++i) {
    const std::string* text = (*modalities)[i].as_string();
    if (text == nullptr || *text != "text") fields.refuse("modalities", "this model writes text alone");
  }
}

}  // namespace

std::span<const KnownField> chat_completions_fields() {
  using namespace known_field;
  static constexpr KnownField kAlone[] = {
      {"messages"},
      {"functions"},
      {"function_call"},
      {"reasoning_effort"},
      {"thinking"},
      {"thinking_mode"},
      {"include_reasoning"},
      {"max_completion_tokens"},
      {"modalities"},
      {"store", kIgnored, "chat completions are not kept; responses are"},
      {"prediction", kIgnored, "only speeds a reply up; the model drafts for itself"},
      {"verbosity", kIgnored, "the model has no such control; ask for it in a message"},
      {"add_generation_prompt", kRefused,
       "a reply always begins a new message, or continues one with \"prefix\": true", "true"},
      {"continue_final_message", kRefused, "set \"prefix\": true in the last message to continue it"},
      {"skip_special_tokens", kRefused, "special tokens are never shown", "true"},
      {"spaces_between_special_tokens", kRefused, "special tokens are never shown", "true"},
      {"audio", kRefused, kTextOnly},
      {"web_search_options", kRefused, "this server searches nothing; declare a tool for it"},
      {"structural_tag", kRefused, "declare tools; their calls are enforced"},
      {"chat_template", kRefused, kOwnTemplate},
      {"documents", kRefused, "put them into a message"},
      {"echo", kRefused, "only completions repeat their prompt"},
      {"best_of", kRefused, "above n would hide choices; ask for n of them and choose", "1"},
      {"prompt_logprobs", kRefused, "send the text to /v1/completions with echo and logprobs", "0"},
      {"truncate_prompt_tokens", kRefused, "prompts are not cut; shorten the messages"},
  };
  static constexpr auto kAll = joined(kEvery, kOpenAi, kNewerOpenAi, kBudgets, kAlone);
  return kAll;
}

ApiResult<ApiRequest> parse_chat_completions(std::string_view body, const ApiContext& context) {
  return parse_body(body, context, [&](const RequestFields& fields, ApiRequest& request) {
    request.protocol = &kChatCompletionsApi;
    check_known_fields(fields, request);
    check_modalities(fields);
    read_chat_messages(fields, request);
    refuse_images(fields, "messages", request.prompt_profile);
    RequestedTools tools = read_chat_tools(fields, request);
    request.tools = tools.declared;
    read_chat_tool_choice(fields, request);
    if (const auto format = fields.fields("response_format")) {
      read_format(*format, "json_schema", true, request.response_format);
    }
    read_enforced_output(fields, request);
    read_thinking(fields, context, request);
    read_common_sampling(fields, request);
    read_repetition_detection(fields, request);
    read_completion_sampling(fields, context, request);
    read_logprobs(fields, request);
    read_max_tokens(fields, request);
    read_stream_options(fields, request);
    check_metadata(fields);
    if (!fields.error()) arrange_conversation(fields, "messages", std::move(tools), request);
  });
}

}  // namespace baleen
