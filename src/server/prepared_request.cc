#include "server/prepared_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/work_budget.h"
#include "chat/content_divider.h"
#include "chat/format.h"
#include "chat/render.h"
#include "generation/sequence_breakers.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxKeptGrammars = 64;

ApiError bad_request(std::string param, std::string message) {
  return {.status = 400, .param = std::move(param), .message = std::move(message)};
}

/// What the reply's thinking is held to, if it thinks.
std::optional<ThinkingLimits> thinking_limits(const PreparedRequest& prepared, const ApiRequest& request,
                                              const ServedModel& model) {
  const std::optional<TokenId> end_token = model.tokenizer->id_of(chat_format::kEndThink);
  if (!prepared.starts_in_reasoning || !end_token) return std::nullopt;
  const std::optional<std::int64_t> budget =
      request.thinking_budget ? request.thinking_budget : model.thinking_budget;
  return ThinkingLimits{.end_token = *end_token, .budget = budget == -1 ? std::nullopt : budget};
}

/// When the reply loops: what the request says, the server's limits for the rest.
std::optional<RepetitionLimits> repetition_limits(const RequestedRepetition& asked,
                                                  const ServedModel& model) {
  if (!asked.on.value_or(model.repetition.has_value())) return std::nullopt;
  RepetitionLimits limits = model.repetition.value_or(RepetitionLimits());
  limits.min_tokens = asked.min_tokens.value_or(limits.min_tokens);
  limits.min_count = asked.min_count.value_or(limits.min_count);
  limits.max_period = asked.max_period.value_or(limits.max_period);
  return limits;
}

/// Requests without a seed get none; of several choices each has its own draws.
SamplingParams sampling_of(const ApiRequest& request, const ServedModel& model, int choice) {
  SamplingParams sampling = request.sampling;
  sampling.temperature = request.temperature.value_or(model.temperature);
  sampling.top_p = request.top_p.value_or(model.top_p);
  if (sampling.seed) *sampling.seed += static_cast<std::uint64_t>(choice);
  return sampling;
}

bool may_call_tools(const ApiRequest& request) { return !callable_tools(request).empty(); }

std::vector<ToolGrammar> wanted_tools(const ApiRequest& request) {
  std::vector<ToolGrammar> tools;
  for (const DeclaredTool& tool : request.tools) {
    const bool wanted =
        request.tool_choice.kind != ToolChoice::Kind::kNamed || tool.name == request.tool_choice.name;
    if (wanted) tools.push_back({tool.name, tool.parameters, tool.strict});
  }
  return tools;
}

PythonJson schema_of(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kJsonSchema) return format.schema;
  return PythonJson::Object{{"type", "object"}};
}

/// Names, schemas and mode: what a compiled grammar depends on.
std::string tools_key(std::span<const ToolGrammar> tools, bool parallel) {
  std::string key = parallel ? "calls" : "call";
  for (const ToolGrammar& tool : tools) {
    key += fmt::format("\n{}{} {}", tool.strict ? "strict " : "", quote_python_json(tool.name),
                       dump_python_json(tool.parameters));
  }
  return key;
}

/// Schema and mode.
std::string schema_key(const PythonJson& schema, ResponseFormat::Holding holding) {
  return fmt::format("schema {}\n{}", static_cast<int>(holding), dump_python_json(schema));
}

/// "name (keyword, keyword)" for every tool or schema of which something is not held.
std::vector<std::string> names_of(const std::vector<Unheld>& unheld) {
  std::vector<std::pair<std::optional<std::string>, std::vector<std::string>>> found;
  for (const Unheld& one : unheld) {
    if (found.empty() || found.back().first != one.tool) found.push_back({one.tool, {}});
    std::vector<std::string>& keywords = found.back().second;
    if (std::ranges::find(keywords, one.keyword) == keywords.end()) keywords.push_back(one.keyword);
  }
  std::vector<std::string> names;
  for (const auto& [tool, keywords] : found)
    names.push_back(fmt::format("{} ({})", tool.value_or("response_format"), fmt::join(keywords, ", ")));
  return names;
}

/// How many tokens end before each of these bytes of a text.
std::vector<std::int64_t> in_tokens(std::span<const std::size_t> bytes, std::span<const TokenId> tokens,
                                    const Tokenizer& tokenizer) {
  std::vector<std::int64_t> ends;
  std::size_t at = 0;
  std::int64_t num_tokens = 0;
  for (const std::size_t byte : bytes) {
    while (num_tokens < std::ssize(tokens)) {
      const std::size_t size = tokenizer.bytes_of(tokens[static_cast<std::size_t>(num_tokens)]).size();
      if (at + size > byte) break;
      at += size;
      ++num_tokens;
    }
    ends.push_back(num_tokens);
  }
  return ends;
}

/// What the rules of a reply are to its reader.
CallEnforcement enforcement_of(const std::optional<ReplyRules>& rules) {
  if (!rules || rules->grammar == nullptr) return CallEnforcement::kNone;
  return rules->body == ReplyRules::Body::kFree ? CallEnforcement::kFromToken : CallEnforcement::kWholeBody;
}

}  // namespace

std::span<const DeclaredTool> callable_tools(const ApiRequest& request) {
  if (request.tool_choice.kind == ToolChoice::Kind::kNone) return {};
  return request.tools;
}

ThinkingMode reply_mode(const PreparedRequest& request) {
  return request.starts_in_reasoning ? ThinkingMode::kThinking : ThinkingMode::kChat;
}

bool starts_in_reasoning(const ApiRequest& request) {
  if (request.protocol->has_raw_prompt || request.thinking_mode != ThinkingMode::kThinking) return false;
  if (request.messages.empty()) return true;
  const Message& last = request.messages.back();
  return last.role != Role::kAssistant && !last.task;
}

ApiResult<std::vector<TokenId>> RequestPreparer::conversation_tokens(
    const ApiRequest& request, std::vector<std::int64_t>* section_ends) const {
  std::vector<Message> messages = request.messages;
  for (Message& message : messages) {
    if (message.tool_calls.empty()) continue;
    if (auto raw = calls_.recall(message.tool_calls)) message.raw_tool_calls = std::move(*raw);
  }
  const RenderOptions options{.profile = model_.prompt_profile,
                              .thinking_mode = request.thinking_mode,
                              .reasoning_effort = request.effort};
  const Result<RenderedConversation> rendered = render_conversation(messages, options);
  const std::string field(request.protocol->prompt_field);
  if (!rendered) return bad_request(field, rendered.error());
  const MarkedText& prompt = rendered.value().text;
  auto tokens =
      model_.controls_in_content ? model_.tokenizer->encode(prompt.text) : model_.tokenizer->encode(prompt);
  if (!tokens) return bad_request(field, tokens.error());
  if (section_ends != nullptr)
    *section_ends = in_tokens(rendered.value().section_ends, tokens.value(), *model_.tokenizer);
  return std::move(tokens).value();
}

std::shared_ptr<const SequenceBreakers> RequestPreparer::dry_breakers(const ApiRequest& request) {
  const std::vector<std::string>& texts =
      request.dry_sequence_breakers ? *request.dry_sequence_breakers : default_sequence_breakers();
  {
    const std::lock_guard lock(mutex_);
    if (breakers_ && breaker_texts_ == texts) return breakers_;
  }
  spend_work(std::ssize(texts) * model_.tokenizer->vocab_size());
  auto breakers = sequence_breakers(*model_.tokenizer, texts);
  const std::lock_guard lock(mutex_);
  breaker_texts_ = texts;
  return breakers_ = std::move(breakers);
}

ApiResult<std::vector<TokenId>> RequestPreparer::raw_tokens(const RawPrompt& prompt, std::size_t prompt_idx,
                                                            std::size_t& num_added) const {
  std::vector<TokenId> tokens;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    auto encoded = model_.tokenizer->encode(*text);
    if (!encoded) return bad_request(fmt::format("prompt[{}]", prompt_idx), encoded.error());
    tokens = std::move(encoded).value();
  } else {
    tokens = std::get<std::vector<TokenId>>(prompt);
  }
  num_added = tokens.empty() || tokens.front() != model_.bos ? 1 : 0;
  if (num_added > 0) tokens.insert(tokens.begin(), model_.bos);
  return tokens;
}

template <class Compile>
Result<RequestPreparer::HeldGrammar> RequestPreparer::cached(std::string key, const Compile& compile) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(grammars_, key, &KeptGrammar::key);
    if (found != grammars_.end()) {
      grammars_.splice(grammars_.begin(), grammars_, found);
      return found->held;
    }
  }
  HeldGrammar held;
  Result<Grammar> compiled = compile(held.unheld);
  if (!compiled) return Failure{compiled.error()};
  held.grammar = std::move(compiled).value();
  const std::lock_guard lock(mutex_);
  grammars_.push_front({std::move(key), held});
  if (grammars_.size() > kMaxKeptGrammars) grammars_.pop_back();
  return held;
}

ApiResult<std::optional<ReplyRules>> RequestPreparer::rules_of(const ApiRequest& request,
                                                               std::vector<Unheld>& not_held) {
  const bool formatted = request.response_format.kind != ResponseFormat::Kind::kText;
  const bool calls = may_call_tools(request);
  const bool forbids_calls = !calls && !request.tools.empty();
  const auto held_to = [&](ReplyRules::Body body, Result<HeldGrammar>& held) {
    not_held = held.value().unheld;
    return std::optional(
        ReplyRules{starts_in_reasoning(request), body, std::move(held).value().grammar, forbids_calls});
  };
  if (!formatted && forbids_calls)
    return std::optional(
        ReplyRules{.starts_in_reasoning = starts_in_reasoning(request), .forbids_calls = true});
  if (!formatted && !calls) return std::optional<ReplyRules>();

  if (request.response_format.kind == ResponseFormat::Kind::kPattern) {
    const std::string& pattern = request.response_format.pattern;
    auto grammar =
        cached("pattern\n" + pattern, [&](std::vector<Unheld>&) { return pattern_grammar(pattern); });
    if (!grammar) return bad_request("response_format", grammar.error());
    return held_to(ReplyRules::Body::kGrammar, grammar);
  }
  const PythonJson schema = schema_of(request.response_format);
  const ResponseFormat::Holding holding = request.response_format.holding;
  const bool strict = holding == ResponseFormat::Holding::kStrict;
  if (!calls) {
    const bool any_object = request.response_format.kind == ResponseFormat::Kind::kJsonObject;
    auto grammar =
        cached(any_object ? "object" : schema_key(schema, holding), [&](std::vector<Unheld>& unheld) {
          if (any_object) return Result<Grammar>(json_object_grammar());
          const bool may_leave_out = holding == ResponseFormat::Holding::kPossible;
          return json_schema_grammar(schema, may_leave_out ? &unheld : nullptr, strict);
        });
    if (!grammar) return bad_request("response_format", grammar.error());
    return held_to(ReplyRules::Body::kGrammar, grammar);
  }
  const std::vector<ToolGrammar> tools = wanted_tools(request);
  // A call of one named tool is one call.
  const bool parallel = request.tool_choice.parallel && request.tool_choice.kind != ToolChoice::Kind::kNamed;
  const bool must_call = request.tool_choice.kind != ToolChoice::Kind::kAuto;
  if (formatted && !must_call) {
    const bool may_leave_out = holding == ResponseFormat::Holding::kPossible;
    auto grammar = cached(tools_key(tools, parallel) + "\n" + schema_key(schema, holding),
                          [&](std::vector<Unheld>& unheld) {
                            return json_or_tool_calls_grammar(schema, tools, parallel, &unheld, may_leave_out,
                                                              strict, call_tags(model_.prompt_profile));
                          });
    if (!grammar) return bad_request("response_format", grammar.error());
    return held_to(ReplyRules::Body::kGrammar, grammar);
  }
  auto grammar = cached(tools_key(tools, parallel), [&](std::vector<Unheld>& unheld) {
    return tool_calls_grammar(tools, parallel, &unheld, call_tags(model_.prompt_profile));
  });
  if (!grammar) return bad_request("tools", grammar.error());
  return held_to(must_call ? ReplyRules::Body::kToolCalls : ReplyRules::Body::kFree, grammar);
}

ApiResult<PreparedRequest> RequestPreparer::prepare(ApiRequest request) {
  PreparedRequest prepared;
  std::vector<Unheld> unheld;
  auto rules = rules_of(request, unheld);
  if (auto* error = std::get_if<ApiError>(&rules)) return std::move(*error);
  prepared.unenforced = names_of(unheld);
  for (DeclaredTool& tool : request.tools) {
    tool.is_held = std::ranges::none_of(
        unheld, [&tool](const Unheld& one) { return one.tool == tool.name && one.keyword == "schema"; });
  }
  prepared.starts_in_reasoning = starts_in_reasoning(request);
  prepared.enforcement = enforcement_of(std::get<std::optional<ReplyRules>>(rules));

  const bool raw = request.protocol->has_raw_prompt;
  const std::size_t num_prompts = raw ? request.prompts.size() : 1;
  if (request.sampling.dry.penalises()) request.sampling.dry.breakers = dry_breakers(request);
  MakeReplyDivider make_divider;  // a raw reply is all content
  if (!raw)
    make_divider = content_divider(reply_mode(prepared), may_call_tools(request), prepared.enforcement,
                                   call_tags(model_.prompt_profile));
  for (std::size_t i = 0; i < num_prompts; ++i) {
    std::size_t num_added = 0;
    std::vector<std::int64_t> section_ends;
    auto encoded =
        raw ? raw_tokens(request.prompts[i], i, num_added) : conversation_tokens(request, &section_ends);
    if (auto* error = std::get_if<ApiError>(&encoded)) return std::move(*error);
    const auto& tokens = std::get<std::vector<TokenId>>(encoded);
    const auto count = static_cast<std::int64_t>(tokens.size());
    const bool no_reply = request.max_tokens == 0;
    const std::int64_t reply_tokens = no_reply ? 0 : 1;
    if (count + reply_tokens > model_.limits.context_tokens) {
      std::string field(request.protocol->prompt_field);
      if (num_prompts > 1) field += fmt::format("[{}]", i);
      return prompt_too_long(*request.protocol, std::move(field), count, reply_tokens,
                             model_.limits.context_tokens);
    }
    prepared.prompt_tokens += count;
    for (const TokenId token : tokens) {
      if (token >= 0 && token < model_.limits.vocab_size) continue;
      return bad_request("prompt", fmt::format("token id {}: the vocabulary has ids 0 to {}", token,
                                               model_.limits.vocab_size - 1));
    }
    if (request.echo) {
      prepared.added_tokens.push_back(num_added);
      prepared.prompt_texts.push_back(
          model_.tokenizer->decode(std::span(tokens).subspan(prepared.added_tokens.back())));
    }
    for (int choice = 0; choice < request.num_choices; ++choice) {
      prepared.choices.push_back({.prompt = tokens,
                                  .sampling = sampling_of(request, model_, choice),
                                  .stops = request.stops,
                                  .make_divider = make_divider,
                                  .stop_tokens = {model_.eos},
                                  .section_ends = section_ends,
                                  .max_tokens = request.max_tokens.value_or(model_.max_reply_tokens),
                                  .thinking = thinking_limits(prepared, request, model_),
                                  .repetition = repetition_limits(request.repetition, model_),
                                  .score_prompt = request.echo && request.logprobs,
                                  .no_reply = no_reply,
                                  .wants_progress = request.include_progress,
                                  .priority = request.priority,
                                  .rules = std::get<std::optional<ReplyRules>>(rules)});
    }
  }
  const std::vector<std::string> wrong =
      prepared.choices.front().sampling.validate(static_cast<std::int32_t>(model_.limits.vocab_size));
  if (!wrong.empty()) return bad_request("", wrong.front());
  prepared.asked = std::move(request);
  return prepared;
}

}  // namespace baleen
