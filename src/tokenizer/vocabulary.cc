#include "tokenizer/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/quoted_text.h"
#include "tokenizer/byte_level.h"

namespace baleen {

TokenIndex index_tokens(const std::vector<VocabularyEntry>& entries, const std::vector<AddedToken>& added,
                        std::string_view name) {
  TokenIndex index;
  index.reserve(entries.size());
  for (const VocabularyEntry& entry : entries) {
    const auto [found, inserted] = index.emplace(entry.text, entry.id);
    if (!inserted) {
      fail("{}: model.vocab lists {} twice, as {} and {}", name, quoted_text(entry.text), found->second,
           entry.id);
    }
  }
  for (const AddedToken& token : added) {
    const auto found = index.find(token.text);
    if (found != index.end() && found->second != token.id) {
      fail("{}: {} has id {} in model.vocab and {} in added_tokens", name, quoted_text(token.text),
           found->second, token.id);
    }
  }
  return index;
}

Vocabulary::Vocabulary(const std::vector<VocabularyEntry>& entries, const std::vector<AddedToken>& added,
                       std::string_view name) {
  TokenId highest = -1;
  for (const VocabularyEntry& entry : entries) highest = std::max(highest, entry.id);
  for (const AddedToken& token : added) highest = std::max(highest, token.id);

  std::vector<const std::string*> text_of(highest + 1, nullptr);
  const auto claim = [&](TokenId id, const std::string& text) {
    const std::string*& owner = text_of[id];
    if (owner != nullptr && *owner != text) {
      fail("{}: id {} belongs to both {} and {}; every token needs an id of its own", name, id,
           quoted_text(*owner), quoted_text(text));
    }
    owner = &text;
  };
  for (const VocabularyEntry& entry : entries) claim(entry.id, entry.text);
  special_.resize(text_of.size(), false);
  for (const AddedToken& token : added) {
    claim(token.id, token.text);
    special_[token.id] = token.special;
  }

  begin_.reserve(text_of.size() + 1);
  for (const std::string* text : text_of) {
    begin_.push_back(bytes_.size());
    if (text != nullptr) bytes_ += byte_level_decode(*text).value_or(*text);
  }
  begin_.push_back(bytes_.size());
}

}  // namespace baleen
