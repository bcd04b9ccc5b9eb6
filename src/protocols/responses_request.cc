#include <algorithm>

#include "protocols/conversation.h"
#include "protocols/protocol.h"
#include "protocols/requested_format.h"
#include "protocols/requested_sampling.h"
#include "protocols/requested_thinking.h"
#include "protocols/requested_tools.h"
#include "protocols/responses_input.h"

namespace baleen {
namespace {

void refuse_unsupported(const RequestFields& fields) {
  constexpr std::string_view kNoState = "this server keeps no state; send the whole conversation in input";
  fields.refuse_if_present("previous_response_id", kNoState);
  fields.refuse_if_present("conversation", kNoState);
  fields.refuse_if_present("prompt", "this server keeps no prompts; send instructions and input");
  if (fields.flag("background").value_or(false))
    fields.refuse("background", "this server keeps no state; stream instead");
  const PythonJson::Array* management = fields.list("context_management", kMaxTools);
  if (management != nullptr && !management->empty()) {
    fields.refuse("context_management", "this server does not shorten conversations; shorten input");
  }
  fields.refuse_if_present("moderation", "this server moderates nothing");
}

RequestedTools read_tools(const RequestFields& fields) {
  RequestedTools tools;
  const PythonJson::Array* list = fields.list("tools", kMaxTools);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !fields.error(); ++i) {
    const RequestFields tool((*list)[i], fields.path("tools", i), fields.error());
    if (tool.required_text("type") != "function") {
      tool.expected("type", "\"function\"; this server runs no tools of its own");
      break;
    }
    add_tool(tool, "parameters", function_in_prompt(tool, "parameters"), tools);
  }
  return tools;
}

std::string function_name(const RequestFields& choice) {
  if (choice.required_text("type") != "function") choice.expected("type", "function or allowed_tools");
  return choice.required_name("name");
}

void read_tool_choice(const RequestFields& fields, ApiRequest& request) {
  request.tool_choice.parallel = fields.flag("parallel_tool_calls").value_or(true);
  const PythonJson* value = fields.find("tool_choice");
  if (value == nullptr) return;
  const auto choice = value->as_string() == nullptr ? fields.fields("tool_choice") : std::nullopt;
  if (const std::string* word = value->as_string()) {
    set_tool_choice(fields, "tool_choice", *word, request.tool_choice);
  } else if (choice && choice->required_text("type") == "allowed_tools") {
    set_tool_choice(*choice, "mode", choice->required_text("mode"), request.tool_choice);
    const PythonJson::Array* list = choice->list("tools", kMaxTools);
    if (list == nullptr) return choice->expected("tools", "an array");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
      names.push_back(function_name(RequestFields((*list)[i], choice->path("tools", i), fields.error())));
    }
    allow_only(*choice, "tools", names, request.tools);
  } else if (choice) {
    request.tool_choice.kind = ToolChoice::Kind::kNamed;
    request.tool_choice.name = function_name(*choice);
  }
  check_tool_choice(fields, "tool_choice", request);
}

void read_logprobs(const RequestFields& fields, ApiRequest& request) {
  const PythonJson::Array* include = fields.list("include", kMaxTools);
  request.logprobs =
      include != nullptr && std::ranges::any_of(*include, [](const PythonJson& name) {
        return name.as_string() != nullptr && *name.as_string() == "message.output_text.logprobs";
      });
  const auto top = fields.integer("top_logprobs", 0, SamplingParams::kMaxLogprobs);
  if (request.logprobs) request.sampling.num_logprobs = static_cast<int>(top.value_or(0));
}

/// What a response says of its request, as the client wrote it.
void repeat_fields(const RequestFields& fields, ApiRequest& request) {
  for (const char* name :
       {"instructions", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls",
        "max_output_tokens", "top_logprobs", "user", "store", "metadata", "temperature", "top_p"}) {
    if (const PythonJson* value = fields.find(name)) request.repeated.push_back({name, *value});
  }
}

}  // namespace

ApiResult<ApiRequest> parse_responses(std::string_view body, const ApiContext& context) {
  return parse_body(body, context, [&](const RequestFields& fields, ApiRequest& request) {
    request.api = Api::kResponses;
    refuse_unsupported(fields);
    if (const std::string* instructions = fields.text("instructions")) {
      request.messages.push_back({.role = Role::kSystem, .content = *instructions});
    }
    read_responses_input(fields, request.messages);
    RequestedTools tools = read_tools(fields);
    request.tools = tools.declared;
    read_tool_choice(fields, request);
    if (const auto text = fields.fields("text")) {
      if (const auto format = text->fields("format")) read_format(*format, "", true, request.response_format);
    }
    const auto reasoning = fields.fields("reasoning");
    const std::string effort = reasoning ? read_effort(*reasoning, "effort") : "";
    settle_thinking(fields, "reasoning.effort", {.effort = effort}, context.think_by_default, request);
    read_common_sampling(fields, request);
    read_logprobs(fields, request);
    request.max_tokens = fields.integer("max_output_tokens", 1, kMaxTokensLimit);
    request.stream = fields.flag("stream").value_or(false);
    (void)fields.fields("stream_options");
    check_metadata(fields);
    (void)fields.flag("store");
    (void)fields.text("user");
    if (!fields.error()) arrange_conversation(fields, "input", std::move(tools), request);
    repeat_fields(fields, request);
  });
}

}  // namespace baleen
