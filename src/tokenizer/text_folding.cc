#include "tokenizer/text_folding.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/text_folding_table.h"

namespace baleen {
namespace {

using namespace text_folding;

char32_t code_of(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7Fu >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return code;
}

void append(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  const int further = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  add((further == 1 ? 0xC0u : further == 2 ? 0xE0u : 0xF0u) | code >> 6 * further);
  for (int i = further - 1; i >= 0; --i) add(0x80u | (code >> 6 * i & 0x3Fu));
}

/// The last item that begins at `code` or before it; null: there is none.
template <class Item, class First>
const Item* item_at(std::span<const Item> items, char32_t code, First first) {
  const auto after = std::ranges::upper_bound(items, code, {}, first);
  return after == items.begin() ? nullptr : &*(after - 1);
}

/// A syllable is a leading consonant, a vowel and maybe a trailing consonant, by arithmetic.
bool append_syllable(std::string& text, char32_t code) {
  constexpr char32_t kFirst = 0xAC00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
  constexpr char32_t kVowels = 21, kTrailings = 28, kSyllables = 19 * kVowels * kTrailings;
  if (code < kFirst || code >= kFirst + kSyllables) return false;
  const char32_t place = code - kFirst;
  append(text, kLeading + place / (kVowels * kTrailings));
  append(text, kVowel + place / kTrailings % kVowels);
  if (place % kTrailings > 0) append(text, kTrailing + place % kTrailings);
  return true;
}

void append_folded(std::string& text, char32_t code) {
  if (const auto* range = item_at(removed_ranges(), code, &RemovedRange::first);
      range != nullptr && code <= range->last)
    return;
  if (const auto* run = item_at(shifted_runs(), code, &ShiftedRun::first);
      run != nullptr && code <= run->last && (code - run->first) % static_cast<char32_t>(run->step) == 0)
    return append(text, code + static_cast<char32_t>(run->delta));
  if (const auto* spelled = item_at(spelled_characters(), code, &SpelledCharacter::code);
      spelled != nullptr && spelled->code == code) {
    text += spelled->text;
    return;
  }
  if (!append_syllable(text, code)) append(text, code);
}

}  // namespace

std::string fold_text(std::string_view text) {
  std::string folded;
  while (!text.empty()) {
    const std::size_t size = next_utf8(text).size;
    append_folded(folded, code_of(text.substr(0, size)));
    text.remove_prefix(size);
  }
  return folded;
}

}  // namespace baleen
