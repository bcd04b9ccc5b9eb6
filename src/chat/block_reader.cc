#include "chat/block_reader.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "chat/argument_types.h"
#include "chat/block_scanner.h"
#include "chat/json_calls.h"
#include "chat/json_repair.h"
#include "chat/meant_tool.h"
#include "chat/repaired_arguments.h"
#include "chat/spellings.h"
#include "chat/tag.h"
#include "chat/white_space.h"
#include "chat/written_arguments.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

/// A stretch between tags that says nothing: white space, a line of a code fence, what is left of a broken
/// tag.
bool is_debris(std::string_view text) {
  const std::string plain = in_plain_spelling(text).text;
  const std::string_view bare = trimmed(plain);
  if (bare.starts_with("```")) return bare.find_first_of(" \n`", 3) == std::string_view::npos;
  return bare.find_first_not_of("<>/\"',; \n") == std::string_view::npos;
}

class BlockReader {
 public:
  BlockReader(std::vector<Markup> stretches, std::span<const DeclaredTool> tools, bool cut)
      : stretches_(std::move(stretches)), tools_(tools), cut_(cut) {}

  ReadBlock run() {
    while (!at(Kind::kEnd)) read_between_invokes();
    drop_text_of_block();
    drop_doubtful_calls();
    return std::move(block_);
  }

 private:
  /// One invoke while it is read.
  struct Invoke {
    std::string name;
    const DeclaredTool* tool = nullptr;
    RepairedArguments arguments;
    std::string shown;  ///< its text, should it be dropped
    std::string loose;  ///< text outside parameters
    bool is_doubtful = false;
    bool has_parameters = false;
    bool is_after_loose_text = false;
    bool has_loose_tags = false;  ///< text like tags, past recognition unless it writes out all arguments
    std::optional<PythonJson::Member> only;  ///< its parameter and that one's text, if it has one
    std::size_t num_repairs_before = 0;      ///< in the block
  };
  enum class ValueEnd { kClosed, kImplied, kCut };

  [[nodiscard]] const Markup& here() const { return stretches_[next_]; }
  [[nodiscard]] bool at(Kind kind) const { return here().kind == kind; }
  Markup take() {
    Markup taken = std::move(stretches_[next_++]);
    block_.num_repairs += taken.is_exact ? 0 : 1;
    return taken;
  }

  /// Where a tag is due: text that begins with something like a tag gives that tag. Only behind white space,
  /// and never in a value, where it is text.
  void read_look_alike_here() {
    if (!at(Kind::kText)) return;
    std::string& text = stretches_[next_].raw;
    const std::size_t begin = text.find_first_not_of(kWhiteSpace);
    if (begin == std::string::npos || !is_in_block_) return;
    std::size_t num_bytes = 0;
    std::optional<Markup> tag =
        read_look_alike(std::string_view(text).substr(begin), num_bytes, Place::kTagIsDue);
    if (!tag) return;
    text.erase(0, begin + num_bytes);
    if (text.empty()) stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(next_));
    stretches_.insert(stretches_.begin() + static_cast<std::ptrdiff_t>(next_), *std::move(tag));
  }

  /// `<｜DSML｜get_weather>` for the invoke of a declared tool.
  [[nodiscard]] bool names_tool(const Markup& tag) const {
    return tag.opens(Kind::kNamed) &&
           std::ranges::find(tools_, tag.tag_name, &DeclaredTool::name) != tools_.end();
  }

  void read_between_invokes() {
    read_look_alike_here();
    if (at(Kind::kEnd)) return;
    if (names_tool(here())) {
      Markup& tag = stretches_[next_];
      tag.kind = Kind::kInvoke;
      tag.name = tag.tag_name;
    }
    if (at(Kind::kInvoke) && !here().is_closing) {
      is_in_block_ = true;
      return read_invoke();
    }
    const Markup stretch = take();
    switch (stretch.kind) {
      case Kind::kText:
        return read_loose_text(stretch.raw);
      case Kind::kCalls:
        is_in_block_ = !stretch.is_closing;
        if (is_in_block_ && !first_in_block_) first_in_block_ = block_.items.size();
        if (!is_in_block_ && !end_of_block_) end_of_block_ = block_.items.size();
        return;
      case Kind::kInvoke:
      case Kind::kParameter:
        return stretch.is_closing ? note_surplus_closer() : show_loose_parameter(stretch);
      default:
        ++block_.num_repairs;
    }
  }

  void read_loose_text(const std::string& text) {
    if (is_in_block_) {
      if (says_nothing(text)) return;
      if (read_json_calls(text)) return;
      if (trimmed(text).find_first_of("{[") == 0) return add_dropped("", without_markup(trimmed(text)));
    }
    if (is_debris(text) && block_.has_calls) {
      if (!is_blank(text)) ++block_.num_repairs;
      add_text(is_blank(text) ? text : "\n");
      return;
    }
    // On the line of a tag that closed a value which had not ended: more of that value.
    if (!text.starts_with('\n') && is_after_implied_end_ && !is_blank(text)) is_surplus_ = true;
    add_text(text);
  }

  void add_text(const std::string& text) {
    block_.items.push_back({.kind = BlockItem::Kind::kText, .text = text});
    is_after_implied_end_ = false;
  }

  /// A tag closes what is not open. After a value that ended without its own tag, that value may have quoted
  /// the tag which ended it.
  void note_surplus_closer() {
    ++block_.num_repairs;
    if (first_implied_) is_surplus_ = true;
    if (!block_.has_calls) add_dropped("", "");
  }

  void show_loose_parameter(const Markup& tag) {
    ++block_.num_repairs;
    add_dropped("", "\n" + without_markup(tag.name.value_or("")) + ": ");
  }

  /// False: the text is no JSON of calls.
  bool read_json_calls(const std::string& text) {
    const std::string_view body = without_look_alike_closers(text, "");
    const std::vector<std::vector<JsonCall>> meanings = json_calls(body);
    if (meanings.empty()) return false;
    std::vector<std::vector<BlockItem>> possible;
    for (const std::vector<JsonCall>& calls : meanings) {
      std::vector<BlockItem> items = items_of(calls);
      if (items.size() == calls.size()) possible.push_back(std::move(items));
    }
    block_.num_repairs += 2;
    const bool is_cut = cut_ && (at(Kind::kEnd) || at(Kind::kCut));  // what is missing was to come
    if (possible.size() == 1 && !is_cut) {
      block_.has_calls = true;
      std::ranges::move(possible.front(), std::back_inserter(block_.items));
      return true;
    }
    for (const JsonCall& call : meanings.front()) add_dropped(call.name, without_markup(body));
    return true;
  }

  /// As many as may be made.
  [[nodiscard]] std::vector<BlockItem> items_of(const std::vector<JsonCall>& calls) const {
    std::vector<BlockItem> items;
    for (const JsonCall& call : calls) {
      const DeclaredTool* tool = meant_tool(call.name, tools_);
      if (tool == nullptr) continue;
      RepairedArguments arguments(tool->parameters);
      arguments.add_members(call.arguments);
      if (!arguments.may_be_called(true)) continue;
      items.push_back({.kind = BlockItem::Kind::kCall,
                       .call = {"", tool->name, arguments.json()},
                       .text = without_markup(call.name + ": " + dump_python_json(call.arguments))});
    }
    return items;
  }

  void add_dropped(const std::string& name, std::string text) {
    ++block_.num_repairs;
    block_.has_calls = true;
    block_.items.push_back(
        {.kind = BlockItem::Kind::kDropped, .call = {"", name, ""}, .text = std::move(text)});
  }

  /// <invoke><name>run</name>: the name of a nameless invoke, or once more that of a named one, as tags with
  /// or without the token.
  void take_name_within(Markup& opening) {
    static constexpr std::string_view kNames[] = {"name", "tool_name", "function_name", "tool"};
    const auto is_name = [](std::string_view word) {
      return std::ranges::find(kNames, word) != std::end(kNames);
    };
    const auto names_it = [&](std::string_view name) {
      return meant_tool(name, tools_) != nullptr && (!opening.name || *opening.name == name);
    };
    std::size_t first = next_;
    if (at(Kind::kText) && !says_nothing(here().raw)) {
      std::string_view rest = here().raw;
      rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
      const auto element = take_element(rest);
      if (!element || !is_name(element->first) || !names_it(trimmed(element->second))) return;
      opening.name = trimmed(element->second);
      stretches_[next_].raw = std::string(rest);
    } else {
      first += at(Kind::kText) ? 1 : 0;
      if (first + 2 >= stretches_.size()) return;
      const Markup &name = stretches_[first], &text = stretches_[first + 1];
      const bool is_element = name.opens(Kind::kNamed) && is_name(name.tag_name) &&
                              text.kind == Kind::kText && stretches_[first + 2].closes(Kind::kNamed) &&
                              stretches_[first + 2].tag_name == name.tag_name;
      if (!is_element || !names_it(trimmed(text.raw))) return;
      opening.name = trimmed(text.raw);
      next_ = first + 3;
    }
    opening.is_exact = false;
    ++block_.num_repairs;
  }

  void read_invoke() {
    Markup opening = take();
    if (!opening.is_empty) take_name_within(opening);
    block_.has_calls = true;
    is_after_implied_end_ = false;
    const std::string name = opening.name.value_or("");
    const std::size_t num_repairs_before = block_.num_repairs - (opening.is_exact ? 0 : 1);
    const DeclaredTool* tool = opening.name ? meant_tool(name, tools_) : nullptr;
    static const PythonJson kNoSchema;
    Invoke invoke{.name = name,
                  .tool = tool,
                  .arguments = RepairedArguments(tool == nullptr ? kNoSchema : tool->parameters),
                  .shown = without_markup(name),
                  .is_doubtful = opening.is_doubtful,
                  .num_repairs_before = num_repairs_before};
    if (tool != nullptr && tool->name != name) ++block_.num_repairs;
    read_attributes_as_parameters(invoke, opening);
    if (!opening.is_empty) read_parameters(invoke);
    finish_invoke(invoke);
  }

  /// <invoke name="run" command="ls">
  static void read_attributes_as_parameters(Invoke& invoke, const Markup& opening) {
    for (const auto& [name, value] : opening.others) {
      const std::optional<std::string> key = invoke.arguments.key_of(name);
      if (invoke.tool == nullptr || !invoke.arguments.declares(*key)) continue;
      invoke.has_parameters = true;
      invoke.shown += "\n" + *key + ": " + without_markup(value);
      invoke.is_doubtful |= value.find_first_of("&\\") != std::string::npos || opening.name == value;
      invoke.arguments.add(*key, std::nullopt, value);
    }
  }

  void read_parameters(Invoke& invoke) {
    bool is_closed = false;
    while (!is_closed && !is_over_before_here(invoke)) {
      read_look_alike_here();
      if (is_over_before_here(invoke)) break;
      if (names_parameter(invoke, here())) {
        stretches_[next_].name = here().tag_name;  // <command>ls</command>
        stretches_[next_].is_exact = false;
        read_parameter(invoke);
        continue;
      }
      if (here().opens(Kind::kParameter) && !groups_parameters(here())) {
        read_parameter(invoke);
        continue;
      }
      const Markup stretch = take();
      if (stretch.kind == Kind::kText) {
        take_loose_text(invoke, stretch.raw);
      } else if (stretch.kind == Kind::kInvoke) {
        is_closed =
            stretch.is_closing || !stretch.name;  // the slash may be missing; or it is the same tag again
      } else if (stretch.closes(Kind::kNamed) && stretch.tag_name == invoke.name) {
        is_closed = true;
      } else {
        ++block_.num_repairs;
        if (stretch.closes(Kind::kParameter)) {
          if (first_implied_) is_surplus_ = true;
          invoke.is_doubtful |= invoke.is_after_loose_text;  // whose opening tag was no tag
        }
        // The block again, or a parameter of which only that much came.
        invoke.is_doubtful |= stretch.opens(Kind::kCalls) || stretch.kind == Kind::kCut;
      }
    }
    if (is_closed) return;
    ++block_.num_repairs;
    // Nothing in it, and nothing closes it: what it was to hold may stand elsewhere.
    invoke.is_doubtful |= !invoke.has_parameters && is_blank(invoke.loose) && invoke.arguments.declares_any();
    if (at(Kind::kEnd) && cut_) invoke.is_doubtful = true;
  }

  /// Whether the tag's own name is that of a parameter, or of all of them with their JSON in it.
  [[nodiscard]] bool names_parameter(const Invoke& invoke, const Markup& tag) const {
    if (tag.is_closing || tag.name || tag.tag_name.empty() || tag.tag_name == invoke.name) return false;
    if (invoke.arguments.declares(tag.tag_name)) return true;
    const bool has_text =
        stretches_[next_ + 1].kind == Kind::kText && !says_nothing(stretches_[next_ + 1].raw);
    return wraps_arguments(tag.tag_name) && has_text;
  }

  /// <parameters> around parameters.
  [[nodiscard]] bool groups_parameters(const Markup& tag) const {
    if (!tag.opens(Kind::kParameter) || tag.name || !wraps_arguments(tag.tag_name)) return false;
    const std::size_t skipped = says_nothing(stretches_[next_ + 1].raw) ? 1 : 0;
    return stretches_[std::min(next_ + 1 + skipped, stretches_.size() - 1)].opens(Kind::kParameter);
  }

  /// Whether what comes is not part of the invoke.
  [[nodiscard]] bool is_over_before_here(const Invoke& invoke) const {
    const Markup& next = here();
    if (names_tool(next) && !names_parameter(invoke, next)) return true;
    const bool is_repeated = next.name == invoke.name && !invoke.has_parameters;
    return next.kind == Kind::kEnd || next.closes(Kind::kCalls) ||
           (next.opens(Kind::kInvoke) && next.name && !is_repeated);
  }

  static void take_loose_text(Invoke& invoke, const std::string& text) {
    if (!says_nothing(text)) invoke.shown += "\n" + without_markup(trimmed(text));
    // After a parameter it may be the rest of a value; with angle brackets, a tag past recognition.
    const bool is_tag =
        text.find_first_of("<>") != std::string::npos && text.find_first_of("{[") == std::string::npos;
    if (!is_debris(text)) invoke.is_doubtful |= invoke.has_parameters;
    invoke.has_loose_tags |= !is_debris(text) && is_tag;
    invoke.is_after_loose_text = !is_debris(text);
    invoke.loose += text;
  }

  void read_parameter(Invoke& invoke) {
    const Markup tag = take();
    const std::optional<std::string> key = invoke.arguments.key_of(tag.name);
    if (key != tag.name) ++block_.num_repairs;
    invoke.is_doubtful |= tag.is_doubtful || !key;
    // A parameter's tag without anything in it, where one was just closed: its closing tag once more.
    if (invoke.has_parameters && !tag.name && !tag.is_string && !tag.value && is_blank_here()) return;
    const bool is_first = !invoke.has_parameters;
    invoke.has_parameters = true;
    invoke.is_after_loose_text = false;
    std::string value;
    ValueEnd end = ValueEnd::kClosed;
    if (!tag.is_empty) end = read_value(invoke, tag, key, value);
    if (end != ValueEnd::kClosed) {
      ++block_.num_repairs;
      const std::string_view closed = without_look_alike_closers(value, key.value_or(""));
      const bool is_closed = closed.size() < value.size();
      if (is_closed) {
        value = closed;
      } else if (value.ends_with('\n')) {
        value.pop_back();
        // The newline of the lost tag, or of the last of several lines.
        invoke.is_doubtful |=
            tag.is_string.value_or(true) && value.find('\n') != std::string::npos && !value.ends_with('\n');
      }
      // Where only the end of the reply ends it, it may have been meant to go on.
      invoke.is_doubtful |= end == ValueEnd::kCut && !is_closed && !is_whole_structure(value);
      invoke.is_doubtful |= !is_closed && may_end_in_tag(value);
    }
    if (tag.is_assigned) read_lines_of_its_own(invoke, tag, value);
    if (tag.value) {
      ++block_.num_repairs;
      invoke.is_doubtful |= !says_nothing(value) || tag.value->find_first_of("&\\") != std::string::npos;
      value = *tag.value;
    }
    invoke.is_doubtful |= tag.has_entities && value.find('&') != std::string::npos;
    invoke.only = is_first && key ? std::optional(PythonJson::Member{*key, value}) : std::nullopt;
    invoke.shown += "\n" + (key ? without_markup(*key) + ": " : "") + without_markup(value);
    if (key) invoke.arguments.add(*key, tag.is_string, value);
  }

  /// <parameter=command>, its value and </parameter>, each on a line. With the token in the tag it is neither
  /// this format nor that one, and the newlines may be the value's.
  static void read_lines_of_its_own(Invoke& invoke, const Markup& tag, std::string& value) {
    if (value.size() < 2 || !value.starts_with('\n') || !value.ends_with('\n')) return;
    if (tag.is_look_alike) {
      value = value.substr(1, value.size() - 2);
    } else {
      invoke.is_doubtful = true;
    }
  }

  [[nodiscard]] bool is_blank_here() const { return !at(Kind::kText) || says_nothing(here().raw); }

  /// An object or array that its brackets close.
  static bool is_whole_structure(std::string_view value) {
    const std::optional<PythonJson> json = read_strict_json(value);
    return json && (json->as_object() != nullptr || json->as_array() != nullptr);
  }

  /// Up to the tag that ends the value, which is taken if it is the value's own.
  ValueEnd read_value(Invoke& invoke, const Markup& opening, const std::optional<std::string>& key,
                      std::string& value) {
    while (true) {
      const Markup& next = here();
      if (next.kind == Kind::kText || next.kind == Kind::kControl) {
        if (opening.is_look_alike && close_look_alike(value)) return ValueEnd::kClosed;
        value += take().raw;
        continue;
      }
      const bool is_slash_missing = next.opens(Kind::kParameter) && !next.name && !next.is_string;
      if (next.closes(Kind::kParameter) || next.closes(Kind::kNamed) || next.closes(Kind::kStray) ||
          is_slash_missing) {
        if (is_slash_missing) ++block_.num_repairs;
        take();
        return ValueEnd::kClosed;
      }
      if (take_swapped_closer()) return ValueEnd::kClosed;
      if (next.opens(Kind::kParameter)) {
        const bool is_repeated = is_blank(value) && invoke.arguments.key_of(next.name) == key;
        if (!is_repeated) return end_before_parameter(invoke, value);
        ++block_.num_repairs;
        take();
        continue;
      }
      return end_by_other_tag(invoke, value);
    }
  }

  /// Where closing tags follow one another: takes the one that closes the value, though another stands first.
  /// That is the parameter's, if each kind is there once at most; else the first of two invokes', or one
  /// before another parameter.
  bool take_swapped_closer() {
    std::optional<std::size_t> of_parameter;
    std::size_t num_invokes = 0, num_blocks = 0, at = next_;
    for (; stretches_[at].is_closing ||
           (stretches_[at].kind == Kind::kText && says_nothing(stretches_[at].raw));
         ++at) {
      const Markup& tag = stretches_[at];
      if (tag.closes(Kind::kParameter) && std::exchange(of_parameter, at)) return false;
      num_invokes += tag.closes(Kind::kInvoke) ? 1 : 0;
      num_blocks += tag.closes(Kind::kCalls) ? 1 : 0;
    }
    const Markup& after = stretches_[at];
    if (num_blocks > 1 || (num_blocks == 1 && after.kind == Kind::kText)) return false;
    const bool is_swapped = of_parameter && num_invokes <= 1 && num_invokes + num_blocks > 0;
    const bool is_misnamed =
        !of_parameter && here().closes(Kind::kInvoke) &&
        (num_invokes == 2 || (num_invokes == 1 && num_blocks == 0 && after.opens(Kind::kParameter)));
    if (!is_swapped && !is_misnamed) return false;
    ++block_.num_repairs;
    stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(is_swapped ? *of_parameter : next_));
    return true;
  }

  /// The closing tag of the parameter before is missing, or the value quotes a tag.
  ValueEnd end_before_parameter(Invoke& invoke, const std::string& value) {
    const std::optional<std::string> key = invoke.arguments.key_of(here().name);
    const bool is_next = key && invoke.arguments.may_follow(*key) && !is_blank(value) &&
                         (invoke.arguments.declares_any() || value.ends_with('\n'));
    if (!is_next) doubt_from_here();
    note_implied_end();
    return ValueEnd::kImplied;
  }

  ValueEnd end_by_other_tag(Invoke& invoke, std::string_view value) {
    const Markup& next = here();
    // All its closing tags lack the token, and the next invoke begins.
    const std::string_view closers = value.substr(without_look_alike_closers(value, "").size());
    if (next.opens(Kind::kInvoke) && next.name && closers.find("invoke") != std::string_view::npos) {
      note_implied_end();
      return ValueEnd::kImplied;
    }
    if (next.kind == Kind::kEnd || next.kind == Kind::kCut) {
      if (cut_) invoke.is_doubtful = true;
      if (next.kind == Kind::kCut) take();
      return ValueEnd::kCut;
    }
    const bool closes_invoke =
        next.closes(Kind::kInvoke) || next.closes(Kind::kCalls) || (next.opens(Kind::kInvoke) && !next.name);
    // An opening tag, or the token alone, within an open value: a quotation. Nothing from here on can be
    // trusted.
    if (!closes_invoke) doubt_from_here();
    if (next.kind == Kind::kStray || next.kind == Kind::kNamed || next.opens(Kind::kCalls)) take();
    note_implied_end();
    return ValueEnd::kImplied;
  }

  /// A value whose opening tag had no token ends like that too, if a tag or nothing follows.
  bool close_look_alike(std::string& value) {
    std::string& text = stretches_[next_].raw;
    for (std::size_t begin = text.find('<'); begin != std::string::npos; begin = text.find('<', begin + 1)) {
      std::size_t num_bytes = 0, ignored = 0;
      const auto tag = read_look_alike(std::string_view(text).substr(begin), num_bytes);
      if (!tag || !tag->is_closing) continue;
      const std::string_view after = std::string_view(text).substr(begin + num_bytes);
      const std::size_t next = after.find_first_not_of(kWhiteSpace);
      if (next != std::string_view::npos && !read_look_alike(after.substr(next), ignored, Place::kTagIsDue))
        continue;
      value += text.substr(0, begin);
      text.erase(0, begin + num_bytes);
      return true;
    }
    return false;
  }

  void note_implied_end() {
    is_after_implied_end_ = true;
    if (!first_implied_) first_implied_ = block_.items.size();
  }
  void doubt_from_here() {
    if (!first_doubtful_) first_doubtful_ = block_.items.size();
  }

  void finish_invoke(Invoke& invoke) {
    const bool has_body = !invoke.has_parameters && !is_debris(invoke.loose);
    invoke.is_doubtful |= invoke.has_parameters && trimmed(invoke.loose).find_first_of("{[") == 0;
    invoke.is_doubtful |= invoke.has_parameters && invoke.has_loose_tags;
    if (has_body && !invoke.tool && invoke.name.empty() && read_json_calls(invoke.loose)) return;
    if (invoke.tool != nullptr) {
      if (has_body) {
        read_body(invoke);
      } else if (invoke.only && !invoke.arguments.declares(invoke.only->name) &&
                 wraps_arguments(invoke.only->name)) {
        read_wrapped(invoke);
      }
    }
    block_.num_repairs += invoke.arguments.num_repairs();
    const bool is_repaired = block_.num_repairs > invoke.num_repairs_before;
    if (invoke.tool == nullptr || invoke.is_doubtful || !invoke.arguments.may_be_called(is_repaired))
      return add_dropped(invoke.name, invoke.shown);
    block_.items.push_back({.kind = BlockItem::Kind::kCall,
                            .call = {"", invoke.tool->name, invoke.arguments.json()},
                            .text = invoke.shown});
    if (!is_debris(invoke.loose)) {
      ++block_.num_repairs;
      add_text("\n" + without_markup(trimmed(invoke.loose)));
    }
  }

  /// Text instead of parameters: the arguments, written out or as JSON, else a doubt, unless the tool takes
  /// none.
  static void read_body(Invoke& invoke) {
    if (auto found = written_arguments(invoke.loose, invoke.tool->parameters)) {
      invoke.arguments = *std::move(found);
      invoke.loose.clear();
      return;
    }
    invoke.is_doubtful |= invoke.has_loose_tags;
    const std::string_view body = without_look_alike_closers(invoke.loose, "");
    const PythonJson& schema = invoke.tool->parameters;
    if (auto found = arguments_of_bodies(json_readings(body), invoke.tool->name, schema)) {
      invoke.arguments = *std::move(found);
      invoke.loose.clear();
      return;
    }
    const bool takes_none = declared_properties(schema) != nullptr && declared_properties(schema)->empty();
    invoke.is_doubtful |= !takes_none || trimmed(body).find_first_of("{[") == 0;
  }

  /// <parameter name="arguments">{"command": "ls"}</parameter>
  static void read_wrapped(Invoke& invoke) {
    if (!invoke.arguments.declares_any()) return;
    std::vector<PythonJson> bodies;
    for (const PythonJson& reading : json_readings(*invoke.only->value.as_string()))
      bodies.push_back(PythonJson::Object{{invoke.only->name, reading}});
    auto found = arguments_of_bodies(bodies, invoke.tool->name, invoke.tool->parameters);
    invoke.is_doubtful |= !found;
    if (found) invoke.arguments = *std::move(found);
  }

  /// What stands in a block without any call was meant as one.
  void drop_text_of_block() {
    if (block_.has_calls || !first_in_block_) return;
    for (std::size_t i = *first_in_block_; i < end_of_block_.value_or(block_.items.size()); ++i) {
      BlockItem& item = block_.items[i];
      if (is_debris(item.text)) continue;
      item = {.kind = BlockItem::Kind::kDropped, .text = without_markup(trimmed(item.text))};
      block_.has_calls = true;
      ++block_.num_repairs;
    }
  }

  /// Calls after a place where a value may have quoted markup.
  void drop_doubtful_calls() {
    std::size_t first = block_.items.size();
    if (first_doubtful_) first = std::min(first, *first_doubtful_);
    if (is_surplus_ && first_implied_) first = std::min(first, *first_implied_);
    for (std::size_t i = first; i < block_.items.size(); ++i) {
      BlockItem& item = block_.items[i];
      if (item.kind != BlockItem::Kind::kCall) continue;
      item.kind = BlockItem::Kind::kDropped;
      ++block_.num_repairs;
    }
  }

  std::vector<Markup> stretches_;
  std::size_t next_ = 0;
  std::span<const DeclaredTool> tools_;
  bool cut_;
  ReadBlock block_;
  bool is_in_block_ = false;
  std::optional<std::size_t> first_in_block_, end_of_block_;  ///< its items
  // Doubts about calls that were read: from which item on, and whether they turned out to be founded.
  std::optional<std::size_t> first_implied_;   ///< a value ended without its own tag
  std::optional<std::size_t> first_doubtful_;  ///< a value holds a tag
  bool is_surplus_ = false;                    ///< tags or text were left over after that
  bool is_after_implied_end_ = false;
};

}  // namespace

ReadBlock read_block(const MarkedText& block, std::span<const DeclaredTool> tools, bool cut) {
  return BlockReader(scan_block(block), tools, cut).run();
}

}  // namespace baleen
