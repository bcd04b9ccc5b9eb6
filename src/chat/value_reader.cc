#include "chat/value_reader.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "chat/json_repair.h"
#include "chat/spellings.h"
#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Kind = Markup::Kind;

/// An object or array that its brackets close.
bool is_whole_structure(std::string_view value) {
  const std::optional<PythonJson> json = read_strict_json(value);
  return json && (json->as_object() != nullptr || json->as_array() != nullptr);
}

class ValueReader {
 public:
  ValueReader(OpenBlock& block, const Markup& opening, const std::optional<std::string>& key,
              const RepairedArguments& arguments)
      : block_(block), opening_(opening), key_(key), arguments_(arguments) {}

  ReadValue run() {
    const End end = read_to_end();
    if (end != End::kClosed) judge_end(end);
    if (opening_.is_assigned) read_lines_of_its_own();
    return std::move(value_);
  }

 private:
  enum class End { kClosed, kImplied, kCut };

  End read_to_end() {
    while (true) {
      const Markup& next = block_.here();
      if (next.kind == Kind::kText || next.kind == Kind::kControl) {
        if (opening_.is_look_alike && close_look_alike()) return End::kClosed;
        value_.text += block_.take().raw;
        continue;
      }
      const bool is_slash_missing = next.opens(Kind::kParameter) && !next.name && !next.is_string;
      if (next.closes(Kind::kParameter) || next.closes(Kind::kNamed) || next.closes(Kind::kStray) ||
          is_slash_missing) {
        if (is_slash_missing) block_.note_repairs();
        block_.take();
        return End::kClosed;
      }
      if (take_swapped_closer()) return End::kClosed;
      if (next.opens(Kind::kParameter)) {
        const bool is_repeated = is_blank(value_.text) && arguments_.key_of(next.name) == key_;
        if (!is_repeated) return end_before_parameter();
        block_.note_repairs();
        block_.take();
        continue;
      }
      return end_by_other_tag();
    }
  }

  /// Where closing tags follow one another: takes the one that closes the value, though another stands first.
  /// That is the parameter's, if each kind is there once at most; else the first of two invokes', or one
  /// before another parameter.
  bool take_swapped_closer() {
    std::optional<std::size_t> of_parameter;
    std::size_t num_invokes = 0, num_blocks = 0, at = 0;
    for (; block_.peek(at).is_closing ||
           (block_.peek(at).kind == Kind::kText && says_nothing(block_.peek(at).raw));
         ++at) {
      const Markup& tag = block_.peek(at);
      if (tag.closes(Kind::kParameter) && std::exchange(of_parameter, at)) return false;
      num_invokes += tag.closes(Kind::kInvoke) ? 1 : 0;
      num_blocks += tag.closes(Kind::kCalls) ? 1 : 0;
    }
    const Markup& after = block_.peek(at);
    if (num_blocks > 1 || (num_blocks == 1 && after.kind == Kind::kText)) return false;
    const bool is_swapped = of_parameter && num_invokes <= 1 && num_invokes + num_blocks > 0;
    const bool is_misnamed =
        !of_parameter && block_.here().closes(Kind::kInvoke) &&
        (num_invokes == 2 || (num_invokes == 1 && num_blocks == 0 && after.opens(Kind::kParameter)));
    if (!is_swapped && !is_misnamed) return false;
    block_.note_repairs();
    block_.erase(is_swapped ? *of_parameter : 0);
    return true;
  }

  /// The closing tag of the parameter before is missing, or the value quotes a tag.
  End end_before_parameter() {
    const std::optional<std::string> key = arguments_.key_of(block_.here().name);
    const bool is_next = key && arguments_.may_follow(*key) && !is_blank(value_.text) &&
                         (arguments_.declares_any() || value_.text.ends_with('\n'));
    if (!is_next) block_.doubt_from_here();
    block_.note_implied_end();
    return End::kImplied;
  }

  End end_by_other_tag() {
    const Markup& next = block_.here();
    // All its closing tags lack the token, and the next invoke begins.
    const std::string_view text = value_.text;
    const std::string_view closers = text.substr(without_look_alike_closers(text, "").size());
    if (next.opens(Kind::kInvoke) && next.name && closers.find("invoke") != std::string_view::npos) {
      block_.note_implied_end();
      return End::kImplied;
    }
    if (next.kind == Kind::kEnd || next.kind == Kind::kCut) {
      if (block_.is_cut()) value_.is_doubtful = true;
      if (next.kind == Kind::kCut) block_.take();
      return End::kCut;
    }
    const bool closes_invoke =
        next.closes(Kind::kInvoke) || next.closes(Kind::kCalls) || (next.opens(Kind::kInvoke) && !next.name);
    // An opening tag, or the token alone, within an open value: a quotation.
    if (!closes_invoke) block_.doubt_from_here();
    if (next.kind == Kind::kStray || next.kind == Kind::kNamed || next.opens(Kind::kCalls)) block_.take();
    block_.note_implied_end();
    return End::kImplied;
  }

  /// A value whose opening tag had no token ends like that too, if a tag or nothing follows.
  bool close_look_alike() {
    std::string& text = block_.here().raw;
    for (std::size_t begin = text.find('<'); begin != std::string::npos; begin = text.find('<', begin + 1)) {
      std::size_t num_bytes = 0, ignored = 0;
      const auto tag = read_look_alike(std::string_view(text).substr(begin), num_bytes);
      if (!tag || !tag->is_closing) continue;
      const std::string_view after = std::string_view(text).substr(begin + num_bytes);
      const std::size_t next = after.find_first_not_of(kWhiteSpace);
      if (next != std::string_view::npos && !read_look_alike(after.substr(next), ignored, Place::kTagIsDue))
        continue;
      value_.text += text.substr(0, begin);
      text.erase(0, begin + num_bytes);
      return true;
    }
    return false;
  }

  /// Its own closing tag did not end the value: closing tags without the token in it may have been meant to.
  void judge_end(End end) {
    block_.note_repairs();
    std::string& text = value_.text;
    const std::string_view closed = without_look_alike_closers(text, key_.value_or(""));
    const bool is_closed = closed.size() < text.size();
    if (is_closed) {
      text = closed;
    } else if (text.ends_with('\n')) {
      text.pop_back();
      // The newline of the lost tag, or of the last of several lines.
      value_.is_doubtful |=
          opening_.is_string.value_or(true) && text.find('\n') != std::string::npos && !text.ends_with('\n');
    }
    // Where only the end of the reply ends it, it may have been meant to go on.
    value_.is_doubtful |= end == End::kCut && !is_closed && !is_whole_structure(text);
    value_.is_doubtful |= !is_closed && may_end_in_tag(text);
  }

  /// <parameter=command>, its value and </parameter>, each on a line. With the token in the tag it is neither
  /// this format nor that one, and the newlines may be the value's.
  void read_lines_of_its_own() {
    std::string& text = value_.text;
    if (text.size() < 2 || !text.starts_with('\n') || !text.ends_with('\n')) return;
    if (opening_.is_look_alike) {
      text = text.substr(1, text.size() - 2);
    } else {
      value_.is_doubtful = true;
    }
  }

  OpenBlock& block_;
  const Markup& opening_;
  const std::optional<std::string>& key_;
  const RepairedArguments& arguments_;
  ReadValue value_;
};

}  // namespace

ReadValue read_value(OpenBlock& block, const Markup& opening, const std::optional<std::string>& key,
                     const RepairedArguments& arguments) {
  return ValueReader(block, opening, key, arguments).run();
}

}  // namespace baleen
