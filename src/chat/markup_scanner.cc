#include "chat/markup_scanner.h"

#include <utility>

namespace baleen {
namespace {

/// The start of a special string or a tag: the two characters occur together nowhere else.
bool starts_special(std::string_view text) {
  return text.find("<｜") != std::string_view::npos || text.find("｜D") != std::string_view::npos;
}

/// Whether the last tag of a reply, all of `rest`, is less than a tag: one that opens without its end, or the marker
/// with a part of a name.
bool is_cut(const Markup& tag, std::string_view rest) {
  if (tag.kind != Markup::Kind::kOther) return !tag.is_ended && !tag.is_closing;
  return rest.find_first_of(" \n<>\"'", tag.raw.size()) == std::string_view::npos;
}

}  // namespace

std::vector<Markup> MarkupScanner::feed(std::string_view piece) {
  pending_ += piece;
  return scan(false);
}

std::vector<Markup> MarkupScanner::finish() {
  std::vector<Markup> stretches = scan(true);
  pending_.clear();
  return stretches;
}

std::vector<Markup> MarkupScanner::scan(bool is_final) {
  std::vector<Markup> stretches;
  std::size_t begin = 0, at = 0;  // text waits from `begin`, is looked at from `at`
  const auto give_text = [&] {
    if (at > begin) stretches.push_back({Markup::Kind::kText, pending_.substr(begin, at - begin)});
    begin = at;
  };
  while (at < pending_.size()) {
    if (!may_begin_markup(pending_[at])) {
      ++at;
      continue;
    }
    const std::string_view rest = std::string_view(pending_).substr(at);
    MarkupMatch match = match_markup(rest, false);
    if (match.verdict == MarkupMatch::Verdict::kNone) {
      ++at;
      continue;
    }
    if (match.verdict == MarkupMatch::Verdict::kUnfinished) {
      if (!is_final) break;
      match = match_markup(rest, true);
      const bool is_found = match.verdict == MarkupMatch::Verdict::kFound;
      if (is_found ? is_cut(match.markup, rest) : starts_special(rest)) {
        give_text();
        stretches.push_back({Markup::Kind::kCut, std::string(rest)});
        return stretches;
      }
      if (!is_found) {
        ++at;
        continue;
      }
    }
    give_text();
    at += match.markup.raw.size();
    begin = at;
    stretches.push_back(std::move(match.markup));
  }
  give_text();
  pending_.erase(0, at);
  return stretches;
}

std::string without_markup(std::string_view text) {
  MarkupScanner scanner;
  std::string result;
  const auto keep_text = [&result](const std::vector<Markup>& stretches) {
    for (const Markup& stretch : stretches) {
      if (stretch.kind == Markup::Kind::kText)
        result += stretch.raw;
      else
        result += ' ';  // what stood around it must not become markup
    }
  };
  keep_text(scanner.feed(text));
  keep_text(scanner.finish());
  return result;
}

}  // namespace baleen
