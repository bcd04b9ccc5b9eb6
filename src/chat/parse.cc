#include "chat/parse.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"
#include "chat/format.h"

namespace baleen {
namespace {

using namespace chat_format;

/// At most 40 bytes of `text` as a JSON string, cut between characters.
std::string excerpt(std::string_view text) {
  static constexpr std::size_t kMax = 40;
  if (text.size() <= kMax) return quote_python_json(text);
  const std::string_view start = text.substr(0, kMax);
  return quote_python_json(start.substr(0, kMax - unfinished_utf8(start))) + " and more";
}

/// What Python's `\s` matches in text.
std::string_view without_leading_space(std::string_view text) {
  static constexpr std::string_view kSpaces[] = {
      "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",   "\x1f",   " ",
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  while (true) {
    const auto* space =
        std::ranges::find_if(kSpaces, [text](std::string_view s) { return text.starts_with(s); });
    if (space == std::end(kSpaces)) return text;
    text.remove_prefix(space->size());
  }
}

/// Removes `suffix`, or `suffix` and one newline more (Python's `$`); false when the text ends in neither.
bool remove_ending(std::string_view& text, std::string_view suffix) {
  const bool has_newline = text.ends_with('\n') && text.substr(0, text.size() - 1).ends_with(suffix);
  if (!has_newline && !text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size() + (has_newline ? 1 : 0));
  return true;
}

class CompletionParser {
 public:
  CompletionParser(std::string_view text, const CallTags& tags) : text_(text), tags_(tags) {}

  Result<Message> run(ThinkingMode mode) {
    message_.role = Role::kAssistant;
    if (!parse(mode)) return *std::move(failure_);
    return std::move(message_);
  }

 private:
  bool parse(ThinkingMode mode) {
    if (mode == ThinkingMode::kThinking) {
      const Piece reasoning = read_until({kEndThink, tags_.calls_start});
      if (reasoning.stop != kEndThink)
        return wrong("</think> before the end and before any tool call", reasoning.text);
      message_.reasoning_content = reasoning.text;
    }
    const Piece content = read_until({kEos, tags_.calls_start});
    if (content.stop.empty())
      return wrong("the end-of-sentence token or a tool call after the content", content.text);
    message_.content = content.text;
    if (content.stop == tags_.calls_start) {
      if (!parse_calls()) return false;
      const Piece rest = read_until({kEos});
      if (!rest.text.empty())
        return wrong("nothing between the tool calls and the end-of-sentence token", rest.text);
    }
    if (at_ != text_.size()) return wrong("nothing after the end-of-sentence token", text_.substr(at_));
    return only_ordinary_text("reasoning", message_.reasoning_content) &&
           only_ordinary_text("content", message_.content);
  }

  /// After the opening tag, up to its `>`. Text that ends between two of the original's reading steps passes.
  bool parse_calls() {
    while (at_ < text_.size()) {
      const Piece between = read_until({tags_.invoke_start, tags_.calls_end});
      if (between.text != ">\n")
        return wrong("'>' and a newline before the next tag of the tool calls", between.text);
      if (between.stop == tags_.calls_end) return true;
      if (between.stop.empty()) return wrong("an invoke or the closing tag of the tool calls", between.text);
      if (!parse_invoke()) return false;
    }
    return true;
  }

  bool parse_invoke() {
    Piece piece = read_until({tags_.parameter_start, tags_.invoke_end});
    const std::optional<std::string_view> name = name_in_header(piece.text);
    if (!name)
      return wrong("name=\"NAME\">, a newline, and then a parameter or the end of the invoke", piece.text);
    ToolCall call{"", std::string(*name), "{"};
    std::unordered_set<std::string_view> keys;
    while (piece.stop == tags_.parameter_start) {
      if (!parse_parameter(call, keys)) return false;
      piece = read_until({tags_.parameter_start, tags_.invoke_end});
      if (piece.text != ">\n") return wrong("'>' and a newline after a parameter", piece.text);
    }
    call.arguments += "}";
    message_.tool_calls.push_back(std::move(call));
    return true;
  }

  static std::optional<std::string_view> name_in_header(std::string_view header) {
    header = without_leading_space(header);
    static constexpr std::string_view kBefore = "name=\"";
    if (!header.starts_with(kBefore)) return std::nullopt;
    header.remove_prefix(kBefore.size());
    if (!remove_ending(header, "\">\n")) return std::nullopt;
    return header;
  }

  /// ` name="KEY" string="true|false">VALUE<`, with the shortest KEY for which the rest fits.
  bool parse_parameter(ToolCall& call, std::unordered_set<std::string_view>& keys) {
    static constexpr std::string_view kBefore = " name=\"", kString = "\" string=\"true\">",
                                      kOther = "\" string=\"false\">";
    std::string_view parameter = read_until({tags_.parameter_end}).text;
    const std::string_view whole = parameter;
    const auto malformed = [&] {
      return wrong(" name=\"KEY\" string=\"true|false\">VALUE</ in a parameter", whole);
    };
    if (!parameter.starts_with(kBefore) || !remove_ending(parameter, "<")) return malformed();
    parameter.remove_prefix(kBefore.size());
    const std::size_t as_string = parameter.find(kString), as_other = parameter.find(kOther);
    const std::size_t key_size = std::min(as_string, as_other);
    if (key_size == std::string_view::npos) return malformed();
    const bool is_string = key_size == as_string;
    const std::string_view key = parameter.substr(0, key_size);
    const std::string_view value = parameter.substr(key_size + (is_string ? kString : kOther).size());
    if (!keys.insert(key).second) return wrong("each parameter name once in an invoke", key);
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments += quote_python_json(key) + ": ";
    call.arguments += is_string ? quote_python_json(value) : std::string(value);
    return true;
  }

  bool only_ordinary_text(std::string_view what, std::string_view text) {
    for (const std::string_view token : {kBos, kEos, kThink, kEndThink, kDsml}) {
      if (text.find(token) != std::string_view::npos) {
        failure_ =
            failure("completion: expected ordinary text as {}, found the special string {}", what, token);
        return false;
      }
    }
    return true;
  }

  struct Piece {
    std::string_view text;
    std::string_view stop;  ///< empty: the end of the text came first
  };

  /// Reads up to and over the first of the `stops`.
  Piece read_until(std::initializer_list<std::string_view> stops) {
    const std::size_t begin = at_;
    for (std::size_t i = at_; i < text_.size(); ++i) {
      for (const std::string_view stop : stops) {
        if (text_[i] == stop[0] && text_.substr(i).starts_with(stop)) {
          at_ = i + stop.size();
          return {text_.substr(begin, i - begin), stop};
        }
      }
    }
    at_ = text_.size();
    return {text_.substr(begin), {}};
  }

  /// `found` is a part of the text.
  bool wrong(std::string_view expected, std::string_view found) {
    failure_ = failure("completion, byte {}: expected {}, found {}", found.data() - text_.data(), expected,
                       excerpt(found));
    return false;
  }

  std::string_view text_;
  const CallTags& tags_;
  std::size_t at_ = 0;
  Message message_;
  std::optional<Failure> failure_;
};

}  // namespace

Result<Message> parse_completion(std::string_view text, ThinkingMode mode, const CallTags& tags) {
  return CompletionParser(text, tags).run(mode);
}

}  // namespace baleen
