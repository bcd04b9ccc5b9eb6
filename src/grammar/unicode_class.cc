#include "grammar/unicode_class.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace baleen {
namespace {

constexpr std::size_t kMaxKept = 64;

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '=';
  });
}

std::string utf8_of(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

/// PCRE2 has the tables; it is asked about one character after the other.
std::optional<std::vector<CharRange>> look_up(std::string_view name) {
  // JavaScript writes Script=Greek and General_Category=L, PCRE2 the value alone.
  if (const std::size_t equals = name.rfind('='); equals != std::string_view::npos) name.remove_prefix(equals + 1);
  const std::string pattern = "\\p{" + std::string(name) + "}";
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_ANCHORED, &error,
                    &at, nullptr),
      &pcre2_code_free);
  if (!code) return std::nullopt;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code.get(), nullptr), &pcre2_match_data_free);
  std::vector<CharRange> ranges;
  for (char32_t c = 0; c <= kLastCharacter; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = utf8_of(c);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (pcre2_match(code.get(), subject, text.size(), 0, PCRE2_NO_UTF_CHECK, data.get(), nullptr) < 0) continue;
    if (!ranges.empty() && ranges.back().last + 1 == c) {
      ranges.back().last = c;
    } else {
      ranges.push_back({c, c});
    }
  }
  return ranges;
}

}  // namespace

std::optional<std::vector<CharRange>> unicode_class(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<CharRange>, std::less<>> kept;
  if (!is_plain_name(name)) return std::nullopt;
  const std::lock_guard lock(mutex);
  if (const auto found = kept.find(name); found != kept.end()) return found->second;
  std::optional<std::vector<CharRange>> ranges = look_up(name);
  if (!ranges) return std::nullopt;
  if (kept.size() >= kMaxKept) kept.clear();
  kept.emplace(name, *ranges);
  return ranges;
}

}  // namespace baleen
