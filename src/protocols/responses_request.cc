#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "protocols/conversation.h"
#include "protocols/protocol.h"
#include "protocols/requested_ending.h"
#include "protocols/requested_format.h"
#include "protocols/requested_sampling.h"
#include "protocols/requested_thinking.h"
#include "protocols/requested_tools.h"
#include "protocols/responses_input.h"
#include "protocols/shared_fields.h"
#include "protocols/text_content.h"
#include "protocols/tool_groups.h"

namespace baleen {
namespace {

RequestedTools read_responses_tools(const RequestFields& fields, ApiRequest& request) {
  RequestedTools tools{.functions = {}, .declared = {}, .profile = request.prompt_profile};
  const PythonJson::Array* list = fields.list("tools", kMaxTools);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !fields.error(); ++i) {
    const RequestFields tool((*list)[i], fields.path("tools", i), fields.error());
    if (const std::string* type = tool.text("type"); type != nullptr && *type == "namespace") {
      add_tool_group(tool, tools, request);
      continue;
    }
    if (pass_over_tool(tool, "function", request)) continue;
    if (tool.required_text("type").empty()) break;
    add_tool(tool, "parameters", function_in_prompt(tool, "parameters"), tools);
  }
  return tools;
}

std::string function_name(const RequestFields& choice, const PromptProfile& profile) {
  if (choice.required_text("type") != "function") choice.expected("type", "function or allowed_tools");
  return required_call_name(choice, profile);
}

void read_responses_tool_choice(const RequestFields& fields, ApiRequest& request) {
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
      names.push_back(function_name(RequestFields((*list)[i], choice->path("tools", i), fields.error()),
                                    request.prompt_profile));
    }
    allow_only(*choice, "tools", names, request.tools);
  } else if (choice) {
    request.tool_choice.kind = ToolChoice::Kind::kNamed;
    request.tool_choice.name = function_name(*choice, request.prompt_profile);
  }
  check_tool_choice(fields, "tool_choice", request);
}

void read_include(const RequestFields& fields, ApiRequest& request) {
  const PythonJson::Array* include = fields.list("include", kMaxTools);
  for (std::size_t i = 0; include != nullptr && i < include->size() && !fields.error(); ++i) {
    const std::string* name = (*include)[i].as_string();
    if (name == nullptr) {
      fields.refuse_at(fields.path("include", i),
                       fmt::format("expected a string, found {}", describe(&(*include)[i])));
    } else if (*name == "message.output_text.logprobs") {
      request.logprobs = true;
    } else if (*name == "reasoning.encrypted_content") {
      request.keeping.seal_reasoning = true;
    } else {
      request.ignored.push_back(fmt::format("{} ({})", fields.path("include", i), *name));
    }
  }
  const auto top = fields.integer("top_logprobs", 0, SamplingParams::kMaxLogprobs);
  if (request.logprobs) request.sampling.num_logprobs = static_cast<int>(top.value_or(0));
}

/// effort and summary; the switches of other servers beside it.
void read_reasoning(const RequestFields& fields, const ApiContext& context, ApiRequest& request) {
  RequestedThinking thinking{.profile = request.prompt_profile};
  if (const auto reasoning = fields.fields("reasoning")) {
    set_effort(*reasoning, "effort", thinking);
    set_thinking_budget(*reasoning, "max_tokens", request);
    for (const char* name : {"summary", "generate_summary"}) {
      const std::string* summary = reasoning->text(name);
      if (summary == nullptr) continue;
      if (*summary != "auto" && *summary != "concise" && *summary != "detailed" && *summary != "none") {
        reasoning->expected(name, "auto, concise, detailed or none");
      }
      request.keeping.summarise_reasoning = *summary != "none";
    }
  }
  read_template_switches(fields, thinking);
  read_thinking_budget(fields, request);
  settle_thinking(fields, "reasoning.effort", thinking, context, request);
}

void read_keeping(const RequestFields& fields, const ApiContext& context, ApiRequest& request) {
  const bool store = fields.flag("store").value_or(true);
  request.keeping.store = store && context.earlier != nullptr;
  // A client that lets nothing be kept carries its reasoning itself.
  if (!store) request.keeping.seal_reasoning = true;
}

/// The declared tools without those that were passed over.
PythonJson::Array own_tools(const PythonJson::Array& tools) {
  PythonJson::Array own;
  std::ranges::copy_if(tools, std::back_inserter(own), [](const PythonJson& tool) {
    const PythonJson* type = tool.find("type");
    return type != nullptr && type->as_string() != nullptr &&
           (*type->as_string() == "function" || *type->as_string() == "namespace");
  });
  return own;
}

/// What a response says of its request, as the client wrote it.
void repeat_fields(const RequestFields& fields, ApiRequest& request) {
  for (const char* name : {"instructions", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls",
                           "max_output_tokens", "top_logprobs", "user", "metadata", "temperature", "top_p",
                           "truncation", "previous_response_id"}) {
    const PythonJson* value = fields.find(name);
    if (value == nullptr) continue;
    const bool is_tools = std::string_view(name) == "tools" && value->as_array() != nullptr;
    request.repeated.push_back({name, is_tools ? PythonJson(own_tools(*value->as_array())) : *value});
  }
}

}  // namespace

std::span<const KnownField> responses_fields() {
  using namespace known_field;
  static constexpr KnownField kAlone[] = {
      {"input"},
      {"instructions"},
      {"previous_response_id"},
      {"store"},
      {"include"},
      {"text"},
      {"max_output_tokens"},
      {"stream_options"},
      {"truncation", kIgnored, "prompts are not cut: one that is too long is refused"},
      {"max_tool_calls", kIgnored, "counts calls of hosted tools, and this server runs none"},
      {"user", kIgnored, kNoAccounts},
      {"client_metadata", kIgnored, kNoAccounts},
      {"background", kRefused, "this server runs nothing in the background; stream instead"},
      {"conversation", kRefused, "this server keeps responses, not conversations; send previous_response_id"},
      {"prompt", kRefused, "this server keeps no prompts; send instructions and input"},
      {"context_management", kRefused, "this server does not shorten conversations; shorten input"},
      {"response_format", kRefused, "stands in text.format here"},
      {"guided_json", kRefused, "send text.format"},
      {"guided_regex", kRefused, "send it to /v1/chat/completions"},
      {"guided_choice", kRefused, "send it to /v1/chat/completions"},
      {"guided_grammar", kRefused, kNoEbnf},
      {"structured_outputs", kRefused, "send text.format"},
      {"reasoning_effort", kRefused, "stands in reasoning.effort here"},
      {"max_tokens", kRefused, "is called max_output_tokens here"},
      {"max_completion_tokens", kRefused, "is called max_output_tokens here"},
      {"messages", kRefused, "is called input here"},
      {"n", kRefused, "a response has one reply; send several requests", "1"},
      {"stop", kRefused, "this API has no stop strings; use /v1/chat/completions"},
      {"seed", kRefused, "this API has no seed; use /v1/chat/completions"},
      {"frequency_penalty", kRefused, "this API has no such penalty; use /v1/chat/completions", "0"},
      {"presence_penalty", kRefused, "this API has no such penalty; use /v1/chat/completions", "0"},
      {"logit_bias", kRefused, "this API has no biases; use /v1/chat/completions", "{}"},
  };
  static constexpr auto kAll = joined(kEvery, kNewerOpenAi, kBudgets, kAlone);
  return kAll;
}

ApiResult<ApiRequest> parse_responses(std::string_view body, const ApiContext& context) {
  return parse_body(body, context, [&](const RequestFields& fields, ApiRequest& request) {
    request.protocol = &kResponsesApi;
    check_known_fields(fields, request);
    read_keeping(fields, context, request);
    if (const std::string* instructions = fields.text("instructions")) {
      request.messages.push_back({.role = Role::kSystem, .content = *instructions});
    }
    read_responses_input(fields, context, request);
    refuse_images(fields, "input", request.prompt_profile);
    RequestedTools tools = read_responses_tools(fields, request);
    request.tools = tools.declared;
    read_responses_tool_choice(fields, request);
    if (const auto text = fields.fields("text")) {
      if (const auto format = text->fields("format")) read_format(*format, "", true, request.response_format);
    }
    read_reasoning(fields, context, request);
    read_common_sampling(fields, request);
    read_repetition_detection(fields, request);
    read_include(fields, request);
    request.max_tokens = fields.integer("max_output_tokens", 1, kMaxTokensLimit);
    request.stream = fields.flag("stream").value_or(false);
    (void)fields.fields("stream_options");
    check_metadata(fields);
    if (!fields.error()) arrange_conversation(fields, "input", std::move(tools), request);
    repeat_fields(fields, request);
  });
}

}  // namespace baleen
