#include "chat/block_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/block_scanner.h"
#include "chat/json_calls.h"
#include "chat/json_repair.h"
#include "chat/repaired_arguments.h"
#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

/// A stretch between tags that says nothing: white space, a line of a code fence, what is left of a broken
/// tag.
bool is_debris(std::string_view text) {
  const std::string_view bare = trimmed(text);
  if (bare.starts_with("```")) return bare.find_first_of(" \n`", 3) == std::string_view::npos;
  return bare.find_first_not_of("<>/\"' \n") == std::string_view::npos;
}

class BlockReader {
 public:
  BlockReader(std::vector<Markup> stretches, std::span<const DeclaredTool> tools, bool cut)
      : stretches_(std::move(stretches)), tools_(tools), cut_(cut) {}

  ReadBlock run() {
    while (!at(Kind::kEnd)) read_between_invokes();
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
    std::optional<Markup> tag = read_look_alike(std::string_view(text).substr(begin), num_bytes);
    if (!tag) return;
    text.erase(0, begin + num_bytes);
    if (text.empty()) stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(next_));
    stretches_.insert(stretches_.begin() + static_cast<std::ptrdiff_t>(next_), *std::move(tag));
  }

  void read_between_invokes() {
    read_look_alike_here();
    if (at(Kind::kEnd)) return;
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
      if (is_blank(text)) return;
      if (std::optional<std::vector<JsonCall>> calls = json_calls(text)) {
        for (const JsonCall& call : *calls) add_json_call(call, text);
        return;
      }
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

  void add_json_call(const JsonCall& call, std::string_view text) {
    block_.num_repairs += 2;
    block_.has_calls = true;
    const DeclaredTool* tool = meant_tool(call.name, tools_);
    const bool is_cut = cut_ && (at(Kind::kEnd) || at(Kind::kCut));  // its missing brackets were to come
    if (tool != nullptr && !is_cut) {
      RepairedArguments arguments(tool->parameters);
      arguments.add_members(call.arguments);
      if (!arguments.is_doubtful())
        return block_.items.push_back({.kind = BlockItem::Kind::kCall,
                                       .call = {"", tool->name, arguments.json()},
                                       .text = std::string(text)});
    }
    add_dropped(call.name, without_markup(text));
  }

  void add_dropped(const std::string& name, std::string text) {
    ++block_.num_repairs;
    block_.has_calls = true;
    block_.items.push_back(
        {.kind = BlockItem::Kind::kDropped, .call = {"", name, ""}, .text = std::move(text)});
  }

  void read_invoke() {
    const Markup opening = take();
    block_.has_calls = true;
    is_after_implied_end_ = false;
    const std::string name = opening.name.value_or("");
    const DeclaredTool* tool = opening.name ? meant_tool(name, tools_) : nullptr;
    static const PythonJson kNoSchema;
    Invoke invoke{.name = name,
                  .tool = tool,
                  .arguments = RepairedArguments(tool == nullptr ? kNoSchema : tool->parameters),
                  .shown = without_markup(name),
                  .is_doubtful = opening.is_doubtful};
    if (tool != nullptr && tool->name != name) ++block_.num_repairs;
    if (!opening.is_empty) read_parameters(invoke);
    finish_invoke(invoke);
  }

  void read_parameters(Invoke& invoke) {
    bool is_closed = false;
    while (!is_closed && !is_over_before_here(invoke)) {
      read_look_alike_here();
      if (is_over_before_here(invoke)) break;
      if (at(Kind::kParameter) && !here().is_closing) {
        read_parameter(invoke);
        continue;
      }
      if (at(Kind::kNamed) && !here().is_closing && invoke.arguments.declares(here().tag_name)) {
        stretches_[next_].name = here().tag_name;  // <command>ls</command>
        ++block_.num_repairs;
        read_parameter(invoke);
        continue;
      }
      const Markup stretch = take();
      if (stretch.kind == Kind::kText) {
        take_loose_text(invoke, stretch.raw);
      } else if (stretch.kind == Kind::kInvoke) {
        is_closed =
            stretch.is_closing || !stretch.name;  // the slash may be missing; or it is the same tag again
      } else {
        ++block_.num_repairs;
        if (stretch.closes(Kind::kParameter)) {
          if (first_implied_) is_surplus_ = true;
          invoke.is_doubtful |= invoke.is_after_loose_text;  // whose opening tag was no tag
        }
        invoke.is_doubtful |= stretch.opens(Kind::kCalls);
      }
    }
    if (is_closed) return;
    ++block_.num_repairs;
    if (at(Kind::kEnd) && cut_) invoke.is_doubtful = true;
  }

  /// Whether what comes is not part of the invoke.
  [[nodiscard]] bool is_over_before_here(const Invoke& invoke) const {
    const Markup& next = here();
    const bool is_repeated = next.name == invoke.name && !invoke.has_parameters;
    return next.kind == Kind::kEnd || next.closes(Kind::kCalls) ||
           (next.opens(Kind::kInvoke) && next.name && !is_repeated);
  }

  static void take_loose_text(Invoke& invoke, const std::string& text) {
    if (!is_blank(text)) invoke.shown += "\n" + without_markup(trimmed(text));
    // After a parameter it may be the rest of a value; with angle brackets, a tag past recognition.
    const bool is_tag =
        text.find_first_of("<>") != std::string::npos && text.find_first_of("{[") == std::string::npos;
    if (!is_debris(text)) invoke.is_doubtful |= invoke.has_parameters || is_tag;
    invoke.is_after_loose_text = !is_debris(text);
    invoke.loose += text;
  }

  void read_parameter(Invoke& invoke) {
    const Markup tag = take();
    const std::optional<std::string> key = invoke.arguments.key_of(tag.name);
    if (key != tag.name) ++block_.num_repairs;
    invoke.is_doubtful |= tag.is_doubtful || !key;
    // A parameter's tag without anything in it, where one was just closed: its closing tag once more.
    if (invoke.has_parameters && !tag.name && !tag.is_string && is_blank_here()) return;
    invoke.has_parameters = true;
    invoke.is_after_loose_text = false;
    std::string value;
    ValueEnd end = ValueEnd::kClosed;
    if (!tag.is_empty) end = read_value(invoke, tag, key, value);
    if (end != ValueEnd::kClosed) {
      ++block_.num_repairs;
      const std::string_view closed = without_look_alike_closers(value, key.value_or(""));
      if (closed.size() < value.size()) {
        value = closed;
      } else if (value.ends_with('\n')) {
        value.pop_back();
      }
    }
    invoke.shown += "\n" + (key ? without_markup(*key) + ": " : "") + without_markup(value);
    if (key) invoke.arguments.add(*key, tag.is_string, value);
  }

  [[nodiscard]] bool is_blank_here() const { return !at(Kind::kText) || is_blank(here().raw); }

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
      if (next.closes(Kind::kParameter) || next.closes(Kind::kNamed) || is_slash_missing) {
        if (next.kind == Kind::kNamed || is_slash_missing) ++block_.num_repairs;
        take();
        return ValueEnd::kClosed;
      }
      if (next.opens(Kind::kParameter)) {
        const bool is_repeated = is_blank(value) && invoke.arguments.key_of(next.name) == key;
        if (!is_repeated) return end_before_parameter(invoke, value);
        ++block_.num_repairs;
        take();
        continue;
      }
      return end_by_other_tag(invoke);
    }
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

  ValueEnd end_by_other_tag(Invoke& invoke) {
    const Markup& next = here();
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
      if (next != std::string_view::npos && !read_look_alike(after.substr(next), ignored)) continue;
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
    bool is_object = false;
    if (!invoke.has_parameters && !is_blank(invoke.loose) && invoke.tool != nullptr) {
      is_object = invoke.arguments.take_object(invoke.loose, invoke.tool->name);
      invoke.is_doubtful |= !is_object && trimmed(invoke.loose).find_first_of("{[") == 0;
    }
    block_.num_repairs += invoke.arguments.num_repairs();
    if (invoke.tool == nullptr || invoke.is_doubtful || invoke.arguments.is_doubtful())
      return add_dropped(invoke.name, invoke.shown);
    block_.items.push_back({.kind = BlockItem::Kind::kCall,
                            .call = {"", invoke.tool->name, invoke.arguments.json()},
                            .text = invoke.shown});
    if (!is_object && !is_debris(invoke.loose)) {
      ++block_.num_repairs;
      add_text("\n" + without_markup(trimmed(invoke.loose)));
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

const DeclaredTool* meant_tool(std::string_view name, std::span<const DeclaredTool> tools) {
  static constexpr std::string_view kPrefixes[] = {"functions.", "function.", "tools.", "tool."};
  name = trimmed(name);
  for (const bool is_exact : {true, false}) {
    const DeclaredTool* found = nullptr;
    for (const DeclaredTool& tool : tools) {
      const auto is_meant = [&](std::string_view candidate) {
        return is_exact ? candidate == tool.name : plain_name(candidate) == plain_name(tool.name);
      };
      const bool is_it = is_meant(name) || std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
                           return name.starts_with(prefix) && is_meant(name.substr(prefix.size()));
                         });
      if (!is_it) continue;
      if (found != nullptr) return nullptr;
      found = &tool;
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace baleen
