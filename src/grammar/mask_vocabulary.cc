#include "grammar/mask_vocabulary.h"

#include <algorithm>
#include <utility>

#include "chat/format.h"

namespace baleen {
namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serial = 0;
  return ++serial;
}

}  // namespace

std::size_t shared_beginning(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

MaskVocabulary::MaskVocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size) : serial_(next_serial()) {
  if (vocab_size < tokenizer.vocab_size()) {
    fail("grammar: the model has {} tokens, its tokenizer {}; are the files of one model?", vocab_size,
         tokenizer.vocab_size());
  }
  const std::optional<TokenId> end = tokenizer.eos() ? tokenizer.eos() : tokenizer.id_of(chat_format::kEos);
  const std::optional<TokenId> end_think = tokenizer.id_of(chat_format::kEndThink);
  if (!end) fail("grammar: the tokenizer names no end token, and has no {}", chat_format::kEos);
  if (!end_think) fail("grammar: the tokenizer has no token {}", chat_format::kEndThink);
  end_token_ = *end;
  end_think_ = *end_think;
  calls_token_ = tokenizer.id_of(chat_format::kDsml);
  mask_words_ = static_cast<std::size_t>(vocab_size + 63) / 64;
  all_but_end_.resize(mask_words_);
  all_but_calls_.resize(mask_words_);

  std::size_t size = 0;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) size += tokenizer.bytes_of(token).size();
  bytes_.reserve(size);  // views point into it from here on
  std::array<bool, 256> has_byte{};
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string_view bytes = tokenizer.bytes_of(token);
    const bool is_text = !tokenizer.is_control(token) || bytes == chat_format::kDsml;
    tokens_.push_back(std::string_view(bytes_.data() + bytes_.size(), bytes.size()));
    bytes_ += bytes;
    is_text_.push_back(!bytes.empty() && token != end_token_ && is_text);
    if (!bytes.empty() && token != end_token_) allow(all_but_end_, token);
    if (!bytes.empty() && token != calls_token_) allow(all_but_calls_, token);
    if (!is_text_.back()) continue;
    entries_.push_back({tokens_.back(), token, 0});
    longest_ = std::max(longest_, bytes.size());
    if (bytes.size() == 1) has_byte[static_cast<std::uint8_t>(bytes[0])] = true;
  }
  const auto missing = std::ranges::find(has_byte, false);
  if (missing != has_byte.end()) {
    fail(
        "grammar: the tokenizer has no ordinary token for byte 0x{:02X} alone; expected a byte-level "
        "vocabulary "
        "with all 256 bytes",
        missing - has_byte.begin());
  }
  std::ranges::sort(entries_, {}, [](const Entry& entry) { return std::pair(entry.bytes, entry.token); });
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (i > 0)
      entries_[i].shared =
          static_cast<std::uint16_t>(shared_beginning(entries_[i - 1].bytes, entries_[i].bytes));
    ++begins_[static_cast<std::uint8_t>(entries_[i].bytes[0]) + 1];
  }
  for (std::size_t byte = 0; byte < 256; ++byte) begins_[byte + 1] += begins_[byte];
}

std::shared_ptr<const MaskVocabulary> make_mask_vocabulary(const Tokenizer& tokenizer,
                                                           std::int64_t vocab_size) {
  return std::make_shared<const MaskVocabulary>(tokenizer, vocab_size);
}

}  // namespace baleen
