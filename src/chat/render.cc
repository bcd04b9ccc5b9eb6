#include "chat/render.h"

#include <algorithm>
#include <optional>

#include "chat/dsml.h"
#include "chat/format.h"
#include "chat/special_strings.h"
#include "chat/turns.h"

namespace baleen {
namespace {

using namespace chat_format;

class Renderer {
 public:
  Renderer(std::span<const Turn> turns, const PromptRules& rules, ThinkingMode mode, bool drop_thinking)
      : turns_(turns),
        rules_(rules),
        thinking_(mode == ThinkingMode::kThinking),
        drop_(drop_thinking),
        last_user_(last_user_turn(turns, rules)) {}

  /// What stands before the first turn; `effort` only in thinking mode.
  void append_beginning(MarkedText& out, std::string_view effort) const {
    const bool has_token = !rules_.system_token.empty();
    if (has_token && (thinking_ || turns_.front().role == Role::kSystem))
      out.add_control(rules_.system_token);
    if (thinking_) out.add_text(effort);
  }

  /// Appends one turn and what leads to the next; the failure, if any.
  std::optional<Failure> append(RenderedConversation& rendered, std::size_t index) const {
    MarkedText& out = rendered.text;
    const std::size_t begin = out.text.size();
    if (std::optional<Failure> failed = append_body(out, index)) return failed;
    if (turns_[index].role == Role::kAssistant && out.text.size() > begin)
      rendered.replies.push_back({begin, out.text.size() - begin});
    if (std::ranges::all_of(turns_.first(index + 1), gives_instructions)) {
      const std::size_t head = turns_[index].role == Role::kDeveloper ? kUser.size()
                               : index > 0                            ? rules_.system_token.size()
                                                                      : 0;
      const Message& message = *turns_[index].message;
      if (!message.tools.empty()) rendered.section_ends.push_back(begin + head + message.content.size());
      rendered.section_ends.push_back(out.text.size());
    }
    const bool is_last = index + 1 == turns_.size();
    if (is_last || turns_[index + 1].role == Role::kAssistant ||
        turns_[index + 1].role == Role::kLatestReminder) {
      append_transition(out, index);
    }
    return std::nullopt;
  }

 private:
  static bool gives_instructions(const Turn& turn) {
    return turn.role == Role::kSystem || turn.role == Role::kDeveloper;
  }

  std::optional<Failure> append_body(MarkedText& out, std::size_t index) const {
    const Turn& turn = turns_[index];
    switch (turn.role) {
      case Role::kSystem:
        // The first one's stands before the effort.
        if (index > 0 && !rules_.system_token.empty()) out.add_control(rules_.system_token);
        out.add_text(turn.message->content);
        append_declarations(out, *turn.message);
        return std::nullopt;
      case Role::kDeveloper:
        if (turn.message->content.empty())
          return refused(turn, "a developer message needs content, found none");
        out.add_control(kUser);
        out.add_text(turn.message->content);
        append_declarations(out, *turn.message);
        return std::nullopt;
      case Role::kUser:
        append_user(out, turn);
        return std::nullopt;
      case Role::kLatestReminder:
        out.add_control(kReminder);
        out.add_text(turn.message->content);
        return std::nullopt;
      case Role::kAssistant:
        return append_assistant(out, index);
      case Role::kTool:  // merge_messages leaves none
      case Role::kDirectSearchResults:
      case Role::kUnknown:
        break;
    }
    return refused(
        turn,
        "this role has no rendering; expected system, user, developer, assistant, tool or latest_reminder");
  }

  void append_declarations(MarkedText& out, const Message& message) const {
    if (!message.tools.empty()) {
      out.add_text("\n\n");
      out.append(with_marked_specials(rules_.tags.tools_head));
      std::string_view separator;
      for (const PythonJson& function : message.tools) {
        out.add_text(separator);
        out.add_text(dump_python_json(function));
        separator = "\n";
      }
      out.add_text(kToolsTail);
    }
    const PythonJson::Object* schema = message.response_format.as_object();
    if (schema != nullptr && !schema->empty()) {
      out.add_text("\n\n");
      out.add_text(kFormatHead);
      out.add_text(dump_python_json(message.response_format));
    }
  }

  static void append_user(MarkedText& out, const Turn& turn) {
    out.add_control(kUser);
    std::string_view separator;
    for (const TurnBlock& block : turn.blocks) {
      out.add_text(separator);
      if (block.is_tool_result) out.add_text("<tool_result>");
      out.add_text(block.text);
      if (block.is_tool_result) out.add_text("</tool_result>");
      separator = "\n\n";
    }
  }

  std::optional<Failure> append_assistant(MarkedText& out, std::size_t index) const {
    const Message& message = *turns_[index].message;
    const bool answers_task = index > 0 && turns_[index - 1].task.has_value();
    const bool keeps_thinking = !drop_ || static_cast<std::ptrdiff_t>(index) > last_user_;
    if (thinking_ && keeps_thinking && !answers_task) {
      out.add_text(message.reasoning_content);
      out.add_control(kEndThink);  // also after no reasoning: the turn before opened it
    }
    out.add_text(message.content);
    if (!message.raw_tool_calls.empty()) {
      out.append(with_marked_tags(message.raw_tool_calls));
    } else if (!message.tool_calls.empty()) {
      const Result<MarkedText> calls = render_tool_calls(message.tool_calls, rules_);
      if (!calls) return refused(turns_[index], calls.error());
      out.add_text("\n\n");
      out.append(calls.value());
    }
    if (!message.wo_eos) out.add_control(kEos);
    return std::nullopt;
  }

  void append_transition(MarkedText& out, std::size_t index) const {
    const Turn& turn = turns_[index];
    if (turn.task) {
      if (*turn.task == Task::kAction) {
        out.add_control(kAssistant);
        out.add_control(thinking_ ? kThink : kEndThink);
      }
      out.add_control(std::ranges::find(kTasks, *turn.task, &TaskName::task)->token);
    } else if (asks_for_reply(turns_, index, rules_)) {
      const bool opens_thinking = thinking_ && (!drop_ || static_cast<std::ptrdiff_t>(index) >= last_user_);
      out.add_control(kAssistant);
      out.add_control(opens_thinking ? kThink : kEndThink);
    }
  }

  static Failure refused(const Turn& turn, std::string_view why) {
    return failure("message {} ({}): {}", turn.index, quote_python_json(role_name(*turn.message)), why);
  }

  std::span<const Turn> turns_;
  const PromptRules& rules_;
  bool thinking_;
  bool drop_;
  std::ptrdiff_t last_user_;
};

}  // namespace

Result<RenderedConversation> render_conversation(std::span<const Message> messages,
                                                 const RenderOptions& options) {
  const PromptRules& rules = prompt_rules(options.profile);
  const Result<std::string> effort = effort_text(options.profile, options.reasoning_effort);
  if (!effort) return failure("reasoning_effort: {}", effort.error());
  std::vector<Turn> context = merge_messages(options.context, rules);
  std::vector<Turn> turns = merge_messages(messages, rules);
  turns.insert(turns.begin(), context.begin(), context.end());
  order_tool_results(turns);

  const bool thinking = options.thinking_mode == ThinkingMode::kThinking;
  const bool drop = options.drop_thinking && !any_tools(turns);
  RenderedConversation rendered;
  MarkedText& prompt = rendered.text;
  if (options.add_bos && context.empty()) prompt.add_control(kBos);
  if (thinking && drop) {
    drop_old_turns(turns, rules);
    drop_old_turns(context, rules);  // by its own last user turn, so it may keep more than the whole does
  }
  const Renderer renderer(turns, rules, options.thinking_mode, drop);
  for (std::size_t index = context.size(); index < turns.size(); ++index) {
    if (index == 0) renderer.append_beginning(prompt, effort.value());
    if (std::optional<Failure> failed = renderer.append(rendered, index)) return *std::move(failed);
  }
  return rendered;
}

Result<MarkedText> render_marked_prompt(std::span<const Message> messages, const RenderOptions& options) {
  Result<RenderedConversation> rendered = render_conversation(messages, options);
  if (!rendered) return Failure{rendered.error()};
  return std::move(rendered).value().text;
}

Result<std::string> render_prompt(std::span<const Message> messages, const RenderOptions& options) {
  Result<MarkedText> prompt = render_marked_prompt(messages, options);
  if (!prompt) return Failure{prompt.error()};
  return std::move(prompt).value().text;
}

}  // namespace baleen
