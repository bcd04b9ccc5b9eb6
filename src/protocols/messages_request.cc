#include "protocols/conversation.h"
#include "protocols/messages_content.h"
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

RequestedTools read_messages_tools(const RequestFields& fields, ApiRequest& request) {
  RequestedTools tools{.functions = {}, .declared = {}, .profile = request.prompt_profile};
  const PythonJson::Array* list = fields.list("tools", kMaxTools);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !fields.error(); ++i) {
    const RequestFields tool((*list)[i], fields.path("tools", i), fields.error());
    if (pass_over_tool(tool, "custom", request)) continue;
    (void)tool.text("type");
    if (tool.object("input_schema") == nullptr) {
      tool.expected("input_schema", "a JSON schema");
      break;
    }
    add_tool(tool, "input_schema", function_in_prompt(tool, "input_schema"), tools);
  }
  return tools;
}

void read_messages_tool_choice(const RequestFields& fields, ApiRequest& request) {
  const auto choice = fields.fields("tool_choice");
  if (!choice) return;
  request.tool_choice.parallel = !choice->flag("disable_parallel_tool_use").value_or(false);
  const std::string type = choice->required_text("type");
  using Kind = ToolChoice::Kind;
  if (type == "any") {
    request.tool_choice.kind = Kind::kRequired;
  } else if (type == "none") {
    request.tool_choice.kind = Kind::kNone;
  } else if (type == "tool") {
    request.tool_choice.kind = Kind::kNamed;
    request.tool_choice.name = required_tool_name(*choice, request.prompt_profile);
  } else if (type != "auto") {
    choice->expected("type", "auto, any, tool or none");
  }
  check_tool_choice(fields, "tool_choice", request);
}

/// This protocol thinks only when asked to, with a budget where one is given.
void read_thinking(const RequestFields& fields, const ApiContext& context, const std::string& effort,
                   ApiRequest& request) {
  RequestedThinking thinking{.profile = request.prompt_profile, .on = false, .effort = effort};
  if (const auto object = fields.fields("thinking")) {
    const std::string type = object->required_text("type");
    if (type == "enabled") {
      if (!object->has("budget_tokens")) object->expected("budget_tokens", "a number of tokens");
    } else if (type != "disabled" && type != "adaptive") {
      object->expected("type", "enabled, disabled or adaptive");
    }
    set_thinking_budget(*object, "budget_tokens", request);
    thinking.on = type != "disabled";
    if (const std::string* display = object->text("display")) {
      if (*display != "summarized" && *display != "omitted")
        object->expected("display", "summarized or omitted");
      request.show_reasoning = *display != "omitted";
    }
  }
  read_thinking_budget(fields, request);
  settle_thinking(fields, "output_config.effort", thinking, context, request);
}

void read_output_config(const RequestFields& fields, ApiRequest& request, std::string& effort) {
  if (const auto config = fields.fields("output_config")) {
    effort = read_effort(*config, "effort", request.prompt_profile);
    if (const auto format = config->fields("format"))
      read_format(*format, "", false, request.response_format);
  }
  // Where the format stood before it moved into output_config.
  if (const auto format = fields.fields("output_format"))
    read_format(*format, "", false, request.response_format);
}

ApiResult<ApiRequest> parse(std::string_view body, const ApiContext& context, bool needs_max_tokens) {
  return parse_body(body, context, [&](const RequestFields& fields, ApiRequest& request) {
    request.protocol = &kMessagesApi;
    check_known_fields(fields, request);
    read_messages_conversation(fields, request);
    for (const char* name : {"system", "messages"}) refuse_images(fields, name, request.prompt_profile);
    RequestedTools tools = read_messages_tools(fields, request);
    request.tools = tools.declared;
    read_messages_tool_choice(fields, request);
    std::string effort;
    read_output_config(fields, request, effort);
    read_thinking(fields, context, effort, request);
    read_common_sampling(fields, request);
    read_repetition_detection(fields, request);
    (void)fields.list("stop_sequences", kMaxStops);
    read_stops(fields, "stop_sequences", request);
    request.max_tokens = fields.integer("max_tokens", 1, kMaxTokensLimit);
    if (needs_max_tokens && !request.max_tokens) fields.expected("max_tokens", "a number of tokens");
    request.stream = fields.flag("stream").value_or(false);
    (void)fields.object("metadata");
    if (!fields.error()) arrange_conversation(fields, "messages", std::move(tools), request);
  });
}

}  // namespace

std::span<const KnownField> messages_fields() {
  using namespace known_field;
  static constexpr KnownField kAlone[] = {
      {"messages"},
      {"system"},
      {"max_tokens"},
      {"stop_sequences"},
      {"thinking"},
      {"tools"},
      {"tool_choice"},
      {"output_config"},
      {"output_format"},
      {"metadata"},
      {"cache_control", kIgnored, kOwnCache},
      {"speed", kIgnored, kOneModel},
      {"inference_geo", kIgnored, "there is one place"},
      {"betas", kIgnored, "what it names is honoured or refused where it stands in the request"},
      {"anthropic_version", kIgnored, "there is one version"},
      {"anthropic_beta", kIgnored, "what it names is honoured or refused where it stands in the request"},
      {"context_management", kIgnored, "the conversation is used as it was sent, nothing is cleared from it"},
      {"container", kRefused, "this server runs no containers"},
      {"mcp_servers", kRefused, "this server connects to no others; declare their tools in tools"},
      {"fallbacks", kRefused, "there is one model"},
      {"response_format", kRefused, "stands in output_config.format here"},
      {"reasoning_effort", kRefused, "stands in output_config.effort here"},
      {"stop", kRefused, "is called stop_sequences here"},
      {"max_completion_tokens", kRefused, "is called max_tokens here"},
      {"max_tokens_to_sample", kRefused, "is called max_tokens here"},
      {"prompt", kRefused, "is the older form; send messages"},
      {"n", kRefused, "a message is one reply; send several requests", "1"},
      {"seed", kRefused, "this API has no seed; use /v1/chat/completions"},
  };
  static constexpr auto kAll = joined(kEvery, kBudgets, kAlone);
  return kAll;
}

ApiResult<ApiRequest> parse_messages(std::string_view body, const ApiContext& context) {
  return parse(body, context, true);
}

ApiResult<ApiRequest> parse_count_tokens(std::string_view body, const ApiContext& context) {
  return parse(body, context, false);
}

}  // namespace baleen
