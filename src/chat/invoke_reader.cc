#include "chat/invoke_reader.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/argument_types.h"
#include "chat/json_call_items.h"
#include "chat/json_calls.h"
#include "chat/json_repair.h"
#include "chat/meant_tool.h"
#include "chat/repaired_arguments.h"
#include "chat/spellings.h"
#include "chat/tag.h"
#include "chat/value_reader.h"
#include "chat/white_space.h"
#include "chat/written_arguments.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

const PythonJson& schema_of(const DeclaredTool* tool) {
  static const PythonJson kNoSchema;
  return tool == nullptr ? kNoSchema : tool->parameters;
}

class InvokeReader {
 public:
  /// `opening`: the invoke's tag, which was taken. `num_repairs_before`: in the block, before that tag.
  InvokeReader(OpenBlock& block, std::span<const DeclaredTool> tools, const Markup& opening,
               std::size_t num_repairs_before)
      : block_(block),
        tools_(tools),
        opening_(opening),
        name_(opening.name.value_or("")),
        tool_(opening.name ? meant_tool(name_, tools) : nullptr),
        arguments_(schema_of(tool_)),
        shown_(without_markup(name_)),
        is_doubtful_(opening.is_doubtful),
        num_repairs_before_(num_repairs_before) {}

  void run() {
    if (tool_ != nullptr && tool_->name != name_) block_.note_repairs();
    read_attributes_as_parameters();
    if (!opening_.is_empty) read_parameters();
    finish();
  }

 private:
  /// <invoke name="run" command="ls">
  void read_attributes_as_parameters() {
    for (const auto& [name, value] : opening_.others) {
      const std::optional<std::string> key = arguments_.key_of(name);
      if (tool_ == nullptr || !arguments_.declares(*key)) continue;
      has_parameters_ = true;
      shown_ += "\n" + *key + ": " + without_markup(value);
      is_doubtful_ |= value.find_first_of("&\\") != std::string::npos || opening_.name == value;
      arguments_.add(*key, std::nullopt, value);
    }
  }

  void read_parameters() {
    bool is_closed = false;
    while (!is_closed && !is_over_before_here()) {
      block_.read_look_alike_here();
      if (is_over_before_here()) break;
      if (names_parameter(block_.here())) {
        block_.here().name = block_.here().tag_name;  // <command>ls</command>
        block_.here().is_exact = false;
        read_parameter();
        continue;
      }
      if (block_.here().opens(Kind::kParameter) && !groups_parameters(block_.here())) {
        read_parameter();
        continue;
      }
      const Markup stretch = block_.take();
      if (stretch.kind == Kind::kText) {
        take_loose_text(stretch.raw);
      } else if (stretch.kind == Kind::kInvoke) {
        // The slash may be missing; or it is the same tag again.
        is_closed = stretch.is_closing || !stretch.name;
      } else if (stretch.closes(Kind::kNamed) && stretch.tag_name == name_) {
        is_closed = true;
      } else {
        block_.note_repairs();
        if (stretch.closes(Kind::kParameter)) {
          if (block_.has_implied_end()) block_.note_surplus();
          is_doubtful_ |= is_after_loose_text_;  // whose opening tag was no tag
        }
        // The block again, or a parameter of which only that much came.
        is_doubtful_ |= stretch.opens(Kind::kCalls) || stretch.kind == Kind::kCut;
      }
    }
    if (is_closed) return;
    block_.note_repairs();
    // Nothing in it, and nothing closes it: what it was to hold may stand elsewhere.
    is_doubtful_ |= !has_parameters_ && is_blank(loose_) && arguments_.declares_any();
    if (block_.at(Kind::kEnd) && block_.is_cut()) is_doubtful_ = true;
  }

  /// Whether the tag's own name is that of a parameter, or of all of them with their JSON in it.
  [[nodiscard]] bool names_parameter(const Markup& tag) const {
    if (tag.is_closing || tag.name || tag.tag_name.empty() || tag.tag_name == name_) return false;
    if (arguments_.declares(tag.tag_name)) return true;
    const bool has_text = block_.peek(1).kind == Kind::kText && !says_nothing(block_.peek(1).raw);
    return wraps_arguments(tag.tag_name) && has_text;
  }

  /// <parameters> around parameters.
  [[nodiscard]] bool groups_parameters(const Markup& tag) const {
    if (!tag.opens(Kind::kParameter) || tag.name || !wraps_arguments(tag.tag_name)) return false;
    return block_.peek(says_nothing(block_.peek(1).raw) ? 2 : 1).opens(Kind::kParameter);
  }

  /// Whether what comes is not part of the invoke.
  [[nodiscard]] bool is_over_before_here() const {
    const Markup& next = block_.here();
    if (names_tool(next, tools_) && !names_parameter(next)) return true;
    const bool is_repeated = next.name == name_ && !has_parameters_;
    return next.kind == Kind::kEnd || next.closes(Kind::kCalls) ||
           (next.opens(Kind::kInvoke) && next.name && !is_repeated);
  }

  void take_loose_text(const std::string& text) {
    if (!says_nothing(text)) shown_ += "\n" + without_markup(trimmed(text));
    // After a parameter it may be the rest of a value; with angle brackets, a tag past recognition.
    const bool is_tag =
        text.find_first_of("<>") != std::string::npos && text.find_first_of("{[") == std::string::npos;
    is_after_loose_text_ = !is_debris(text);
    is_doubtful_ |= is_after_loose_text_ && has_parameters_;
    has_loose_tags_ |= is_after_loose_text_ && is_tag;
    loose_ += text;
  }

  void read_parameter() {
    const Markup tag = block_.take();
    const std::optional<std::string> key = arguments_.key_of(tag.name);
    if (key != tag.name) block_.note_repairs();
    is_doubtful_ |= tag.is_doubtful || !key;
    // A parameter's tag without anything in it, where one was just closed: its closing tag once more.
    const bool is_blank_here = !block_.at(Kind::kText) || says_nothing(block_.here().raw);
    if (has_parameters_ && !tag.name && !tag.is_string && !tag.value && is_blank_here) return;
    const bool is_first = !has_parameters_;
    has_parameters_ = true;
    is_after_loose_text_ = false;
    ReadValue value = tag.is_empty ? ReadValue() : read_value(block_, tag, key, arguments_);
    is_doubtful_ |= value.is_doubtful;
    if (tag.value) {
      block_.note_repairs();
      is_doubtful_ |= !says_nothing(value.text) || tag.value->find_first_of("&\\") != std::string::npos;
      value.text = *tag.value;
    }
    is_doubtful_ |= tag.has_entities && value.text.find('&') != std::string::npos;
    only_ = is_first && key ? std::optional(PythonJson::Member{*key, value.text}) : std::nullopt;
    shown_ += "\n" + (key ? without_markup(*key) + ": " : "") + without_markup(value.text);
    if (key) arguments_.add(*key, tag.is_string, value.text);
  }

  void finish() {
    const bool has_body = !has_parameters_ && !is_debris(loose_);
    is_doubtful_ |= has_parameters_ && trimmed(loose_).find_first_of("{[") == 0;
    is_doubtful_ |= has_parameters_ && has_loose_tags_;
    if (has_body && tool_ == nullptr && name_.empty() && add_json_calls(block_, loose_, tools_)) return;
    if (tool_ != nullptr) {
      if (has_body) {
        read_body();
      } else if (only_ && !arguments_.declares(only_->name) && wraps_arguments(only_->name)) {
        read_wrapped();
      }
    }
    block_.note_repairs(arguments_.num_repairs());
    const bool is_repaired = block_.num_repairs() > num_repairs_before_;
    if (tool_ == nullptr || is_doubtful_ || !arguments_.may_be_called(is_repaired))
      return block_.add_dropped(name_, shown_);
    block_.add_call(
        {.kind = BlockItem::Kind::kCall, .call = {"", tool_->name, arguments_.json()}, .text = shown_});
    if (!is_debris(loose_)) {
      block_.note_repairs();
      block_.add_text("\n" + without_markup(trimmed(loose_)));
    }
  }

  /// Text instead of parameters: the arguments, written out or as JSON, else a doubt, unless the tool takes
  /// none.
  void read_body() {
    const PythonJson& schema = tool_->parameters;
    std::optional<RepairedArguments> found = written_arguments(loose_, schema);
    const std::string_view body = without_look_alike_closers(loose_, "");
    if (!found) {
      is_doubtful_ |= has_loose_tags_;
      found = arguments_of_bodies(json_readings(body), tool_->name, schema);
    }
    if (found) {
      arguments_ = *std::move(found);
      loose_.clear();
      return;
    }
    const bool takes_none = declared_properties(schema) != nullptr && declared_properties(schema)->empty();
    is_doubtful_ |= !takes_none || trimmed(body).find_first_of("{[") == 0;
  }

  /// <parameter name="arguments">{"command": "ls"}</parameter>
  void read_wrapped() {
    if (!arguments_.declares_any()) return;
    std::vector<PythonJson> bodies;
    for (const PythonJson& reading : json_readings(*only_->value.as_string()))
      bodies.push_back(PythonJson::Object{{only_->name, reading}});
    auto found = arguments_of_bodies(bodies, tool_->name, tool_->parameters);
    is_doubtful_ |= !found;
    if (found) arguments_ = *std::move(found);
  }

  OpenBlock& block_;
  std::span<const DeclaredTool> tools_;
  const Markup& opening_;
  std::string name_;
  const DeclaredTool* tool_ = nullptr;
  RepairedArguments arguments_;
  std::string shown_;  ///< its text, should it be dropped
  std::string loose_;  ///< text outside parameters
  bool is_doubtful_ = false;
  bool has_parameters_ = false;
  bool is_after_loose_text_ = false;
  bool has_loose_tags_ = false;  ///< text like tags, past recognition unless it writes out all arguments
  std::optional<PythonJson::Member> only_;  ///< its parameter and that one's text, if it has one
  std::size_t num_repairs_before_;
};

/// <invoke><name>run</name>: the name of a nameless invoke, or once more that of a named one, as tags with or
/// without the token.
void take_name_within(OpenBlock& block, std::span<const DeclaredTool> tools, Markup& opening) {
  static constexpr std::string_view kNames[] = {"name", "tool_name", "function_name", "tool"};
  const auto is_name = [](std::string_view word) {
    return std::ranges::find(kNames, word) != std::end(kNames);
  };
  const auto names_it = [&](std::string_view name) {
    return meant_tool(name, tools) != nullptr && (!opening.name || *opening.name == name);
  };
  if (block.at(Kind::kText) && !says_nothing(block.here().raw)) {
    std::string_view rest = block.here().raw;
    rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
    const auto element = take_element(rest);
    if (!element || !is_name(element->first) || !names_it(trimmed(element->second))) return;
    opening.name = trimmed(element->second);
    block.here().raw = std::string(rest);
  } else {
    const std::size_t first = block.at(Kind::kText) ? 1 : 0;
    const Markup &name = block.peek(first), &text = block.peek(first + 1), &end = block.peek(first + 2);
    const bool is_element = name.opens(Kind::kNamed) && is_name(name.tag_name) && text.kind == Kind::kText &&
                            end.closes(Kind::kNamed) && end.tag_name == name.tag_name;
    if (!is_element || !names_it(trimmed(text.raw))) return;
    opening.name = trimmed(text.raw);
    block.skip(first + 3);
  }
  opening.is_exact = false;
  block.note_repairs();
}

}  // namespace

bool names_tool(const Markup& tag, std::span<const DeclaredTool> tools) {
  return tag.opens(Kind::kNamed) &&
         std::ranges::find(tools, tag.tag_name, &DeclaredTool::name) != tools.end();
}

void read_invoke(OpenBlock& block, std::span<const DeclaredTool> tools) {
  block.note_invoke();
  Markup opening = block.take();
  if (!opening.is_empty) take_name_within(block, tools, opening);
  const std::size_t num_repairs_before = block.num_repairs() - (opening.is_exact ? 0 : 1);
  InvokeReader(block, tools, opening, num_repairs_before).run();
}

}  // namespace baleen
