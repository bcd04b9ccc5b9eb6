#include "chat/open_block.h"

#include <algorithm>
#include <utility>

#include "chat/spellings.h"
#include "chat/white_space.h"

namespace baleen {

bool is_debris(std::string_view text) {
  const std::string plain = in_plain_spelling(text).text;
  const std::string_view bare = trimmed(plain);
  if (bare.starts_with("```")) return bare.find_first_of(" \n`", 3) == std::string_view::npos;
  return bare.find_first_not_of("<>/\"',; \n") == std::string_view::npos;
}

const Markup& OpenBlock::peek(std::size_t distance) const {
  return stretches_[std::min(next_ + distance, stretches_.size() - 1)];
}

Markup OpenBlock::take() {
  Markup taken = std::move(stretches_[next_++]);
  read_.num_repairs += taken.is_exact ? 0 : 1;
  return taken;
}

void OpenBlock::erase(std::size_t distance) {
  stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(next_ + distance));
}

void OpenBlock::read_look_alike_here() {
  if (!at(Kind::kText)) return;
  std::string& text = here().raw;
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string::npos || !is_in_block_) return;
  std::size_t num_bytes = 0;
  std::optional<Markup> tag =
      read_look_alike(std::string_view(text).substr(begin), num_bytes, Place::kTagIsDue);
  if (!tag) return;
  text.erase(0, begin + num_bytes);
  if (text.empty()) erase(0);
  stretches_.insert(stretches_.begin() + static_cast<std::ptrdiff_t>(next_), *std::move(tag));
}

void OpenBlock::add_text(const std::string& text) {
  read_.items.push_back({.kind = BlockItem::Kind::kText, .text = text});
  is_after_implied_end_ = false;
}

void OpenBlock::add_call(BlockItem call) {
  note_call();
  read_.items.push_back(std::move(call));
}

void OpenBlock::add_dropped(const std::string& name, std::string text) {
  note_repairs();
  note_call();
  read_.items.push_back({.kind = BlockItem::Kind::kDropped, .call = {"", name, ""}, .text = std::move(text)});
}

void OpenBlock::note_block_tag(bool is_closing) {
  is_in_block_ = !is_closing;
  std::optional<std::size_t>& limit = is_closing ? end_of_block_ : first_in_block_;
  if (!limit) limit = read_.items.size();
}

void OpenBlock::note_invoke() {
  is_in_block_ = true;
  is_after_implied_end_ = false;
  note_call();
}

void OpenBlock::note_implied_end() {
  is_after_implied_end_ = true;
  if (!first_implied_) first_implied_ = read_.items.size();
}

void OpenBlock::doubt_from_here() {
  if (!first_doubtful_) first_doubtful_ = read_.items.size();
}

ReadBlock OpenBlock::close() {
  drop_text_of_block();
  drop_doubtful_calls();
  return std::move(read_);
}

/// What stands in a block without any call was meant as one.
void OpenBlock::drop_text_of_block() {
  if (read_.has_calls || !first_in_block_) return;
  for (std::size_t i = *first_in_block_; i < end_of_block_.value_or(read_.items.size()); ++i) {
    BlockItem& item = read_.items[i];
    if (is_debris(item.text)) continue;
    item = {.kind = BlockItem::Kind::kDropped, .text = without_markup(trimmed(item.text))};
    note_call();
    note_repairs();
  }
}

/// Calls after a place where a value may have quoted markup.
void OpenBlock::drop_doubtful_calls() {
  std::size_t first = read_.items.size();
  if (first_doubtful_) first = std::min(first, *first_doubtful_);
  if (is_surplus_ && first_implied_) first = std::min(first, *first_implied_);
  for (std::size_t i = first; i < read_.items.size(); ++i) {
    BlockItem& item = read_.items[i];
    if (item.kind != BlockItem::Kind::kCall) continue;
    item.kind = BlockItem::Kind::kDropped;
    note_repairs();
  }
}

}  // namespace baleen
