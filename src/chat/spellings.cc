#include "chat/spellings.h"

#include <algorithm>
#include <utility>

#include "chat/white_space.h"

namespace baleen {
namespace {

struct Spelling {
  std::string_view written, plain;
};

constexpr Spelling kSpellings[] = {
    {"＜", "<"},      {"〈", "<"},     {"&lt;", "<"},    {"＞", ">"},     {"〉", ">"},     {"&gt;", ">"},
    {"／", "/"},      {"＝", "="},     {"：", ":"},      {"，", ","},     {"［", "["},     {"］", "]"},
    {"｛", "{"},      {"｝", "}"},     {"＂", "\""},     {"“", "\""},     {"”", "\""},     {"„", "\""},
    {"&quot;", "\""}, {"&#34;", "\""}, {"&#x22;", "\""}, {"＇", "'"},     {"‘", "'"},      {"’", "'"},
    {"`", "'"},       {"&apos;", "'"}, {"&#39;", "'"},   {"&nbsp;", " "}, {"\u00a0", " "}, {"\u2002", " "},
    {"\u2003", " "},  {"\u2007", " "}, {"\u2009", " "},  {"\u202f", " "}, {"\u3000", " "}, {"\u200b", ""},
    {"\u200c", ""},   {"\u200d", ""},  {"\u2060", ""},   {"\ufeff", ""},  {"０", "0"},     {"１", "1"},
    {"２", "2"},      {"３", "3"},     {"４", "4"},      {"５", "5"},     {"６", "6"},     {"７", "7"},
    {"«", "\""},      {"»", "\""},     {"８", "8"},      {"９", "9"},     {"－", "-"},     {"−", "-"},
    {"＋", "+"},      {"．", "."},
};

bool may_begin_spelling(char c) { return c == '&' || c == '`' || static_cast<unsigned char>(c) >= 0x80U; }

/// The spelling that `text` begins with; nullptr for none.
const Spelling* leading_spelling(std::string_view text) {
  if (!may_begin_spelling(text[0])) return nullptr;
  const auto* found = std::ranges::find_if(
      kSpellings, [text](const Spelling& spelling) { return text.starts_with(spelling.written); });
  return found == std::end(kSpellings) ? nullptr : found;
}

/// The mark that closes a string which `text` begins with; empty for none.
std::string_view closing_mark(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {R"(""")", R"(""")"}, {"\"", "\""}, {"'", "'"},          {"“", "”"},
      {"‘", "’"},           {"＂", "＂"}, {"&quot;", "&quot;"}};
  for (const auto& [opening, closing] : kMarks) {
    if (text.starts_with(opening)) return closing;
  }
  return {};
}

/// Of the string at the beginning of `text`, with both its marks.
std::size_t string_bytes(std::string_view text, std::string_view closing) {
  for (std::size_t at = closing.size(); at < text.size(); ++at) {
    if (text.substr(at).starts_with(closing)) return at + closing.size();
    if (text[at] == '\\') ++at;
  }
  return text.size();
}

}  // namespace

PlainText in_plain_spelling(std::string_view text) {
  PlainText plain;
  plain.text.reserve(text.size());
  plain.places.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size();) {
    const Spelling* spelling = leading_spelling(text.substr(at));
    if (spelling == nullptr) {
      plain.text += text[at];
      plain.places.push_back(at++);
      continue;
    }
    plain.text += spelling->plain;
    plain.places.insert(plain.places.end(), spelling->plain.size(), at);
    at += spelling->written.size();
  }
  plain.places.push_back(text.size());
  return plain;
}

std::string with_plain_syntax(std::string_view json) {
  std::string plain;
  for (std::size_t at = 0; at < json.size();) {
    const std::string_view rest = json.substr(at);
    if (const std::string_view closing = closing_mark(rest); !closing.empty()) {
      const std::string_view string = rest.substr(0, string_bytes(rest, closing));
      // Behind an entity as quotation mark others may be entities too, or stand for themselves.
      const bool is_plain = closing.size() > 1 && string.ends_with(closing) &&
                            string.size() >= 2 * closing.size() &&
                            string.substr(closing.size()).find('&') == string.size() - 2 * closing.size();
      plain +=
          is_plain
              ? "\"" + std::string(string.substr(closing.size(), string.size() - 2 * closing.size())) + "\""
              : std::string(string);
      at += string.size();
      continue;
    }
    const Spelling* spelling = leading_spelling(rest);
    plain += spelling == nullptr ? rest.substr(0, 1) : spelling->plain;
    at += spelling == nullptr ? 1 : spelling->written.size();
  }
  return plain;
}

std::size_t spelled_at_end(std::string_view text, std::string_view plain) {
  if (text.ends_with(plain)) return plain.size();
  for (const Spelling& spelling : kSpellings) {
    if (spelling.plain == plain && text.ends_with(spelling.written)) return spelling.written.size();
  }
  return 0;
}

bool says_nothing(std::string_view text) { return is_blank(text) || is_blank(in_plain_spelling(text).text); }

bool is_misspelt(std::string_view word, std::string_view meant, std::size_t max_slips) {
  if (word.size() > meant.size() + max_slips || meant.size() > word.size() + max_slips) return false;
  // Rows of the table of edit distances; `before` is two rows up, for swapped neighbours.
  std::vector<std::size_t> before, above(meant.size() + 1), row(meant.size() + 1);
  for (std::size_t i = 0; i <= meant.size(); ++i) above[i] = i;
  for (std::size_t w = 1; w <= word.size(); ++w) {
    row[0] = w;
    for (std::size_t m = 1; m <= meant.size(); ++m) {
      const std::size_t changed = above[m - 1] + (word[w - 1] == meant[m - 1] ? 0 : 1);
      row[m] = std::min({changed, above[m] + 1, row[m - 1] + 1});
      const bool is_swapped = w > 1 && m > 1 && word[w - 1] == meant[m - 2] && word[w - 2] == meant[m - 1];
      if (is_swapped) row[m] = std::min(row[m], before[m - 2] + 1);
    }
    before = std::exchange(above, row);
  }
  return above[meant.size()] <= max_slips;
}

}  // namespace baleen
