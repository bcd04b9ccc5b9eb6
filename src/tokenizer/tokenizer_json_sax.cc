#include "tokenizer/tokenizer_json_sax.h"

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

/// The event handler that nlohmann's parser calls; every callback returns true to go on.
class PartsReader final : public nlohmann::json_sax<Json> {
 public:
  PartsReader(TokenizerJsonParts& parts, std::string_view name) : parts_(parts), name_(name) {}

  bool null() override { return value(Json()); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(std::int64_t number) override { return value(number); }
  bool number_unsigned(std::uint64_t number) override {
    if (state_ != State::kVocabulary) return value(number);
    if (number > static_cast<std::uint64_t>(kMaxTokenId)) {
      fail("{}: model.vocab gives {} the id {}; at most {} is believed", name_, quoted_text(key_), number,
           kMaxTokenId);
    }
    parts_.vocabulary.push_back({std::move(key_), static_cast<TokenId>(number)});
    return true;
  }
  bool number_float(double number, const std::string& /*digits*/) override { return value(number); }
  bool string(std::string& text) override {
    if (state_ == State::kMerges) return add_merge(text);
    if (state_ == State::kMergePair) return add_half(text);
    return value(std::move(text));
  }
  bool binary(Json::binary_t& /*bytes*/) override { return false; }  // no such thing in JSON text

  bool key(std::string& text) override {
    key_ = std::move(text);
    return true;
  }
  bool start_object(std::size_t /*size*/) override {
    const bool vocabulary = at_model_member("vocab");
    open(Json::object());
    if (vocabulary) state_ = State::kVocabulary;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override {
    if (state_ == State::kMerges) {
      state_ = State::kMergePair;
      num_halves_ = 0;
      parts_.merges.emplace_back();
      return true;
    }
    const bool merges = at_model_member("merges");
    open(Json::array());
    if (merges) state_ = State::kMerges;
    return true;
  }
  bool end_array() override {
    if (state_ != State::kMergePair) return close();
    if (num_halves_ != 2) bad_merge(parts_.merges.size() - 1);
    state_ = State::kMerges;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const Json::exception& error) override {
    // nlohmann's text is "[json.exception...] parse error at line L, column C: what"; the number in front is
    // noise.
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("] "), what.size() - 2) + 2);
    fail("{}: not valid JSON at byte {}: {}; was the file cut short or edited?", name_, position,
         shortened_text(what));
  }

 private:
  enum class State {
    kTree,        ///< values go into the tree
    kVocabulary,  ///< inside model.vocab
    kMerges,      ///< inside model.merges
    kMergePair,   ///< inside one merge that is written as an array
  };

  /// True where the value about to begin is `model.<member>` of the top object.
  [[nodiscard]] bool at_model_member(std::string_view member) const {
    return open_.size() == 2 && model_open_ && key_ == member;
  }

  Json* place(Json&& json) {
    if (open_.empty()) {
      parts_.rest = std::move(json);
      return &parts_.rest;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(json));
      return &open_.back()->back();
    }
    return &((*open_.back())[key_] = std::move(json));
  }

  bool value(Json&& json) {
    if (state_ == State::kVocabulary) {
      const std::string found =
          json.is_string() ? quoted_text(json.get_ref<const std::string&>())
                           : shortened_text(json.dump(-1, ' ', false, Json::error_handler_t::replace));
      fail("{}: model.vocab gives {} {}; a whole number that is not negative was expected", name_,
           quoted_text(key_), found);
    }
    if (state_ != State::kTree) bad_merge(parts_.merges.size() - (state_ == State::kMergePair ? 1 : 0));
    place(std::move(json));
    return true;
  }

  void open(Json&& container) {
    if (state_ != State::kTree) value(std::move(container));
    if (open_.size() == 1) model_open_ = key_ == "model" && container.is_object();
    open_.push_back(place(std::move(container)));
  }

  bool close() {
    open_.pop_back();
    state_ = State::kTree;
    return true;
  }

  bool add_merge(const std::string& line) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      bad_merge(parts_.merges.size());
    MergeRule& rule = parts_.merges.emplace_back();
    rule.left_size = space;
    rule.merged.reserve(line.size() - 1);
    rule.merged.append(line, 0, space).append(line, space + 1);
    return true;
  }

  bool add_half(const std::string& half) {
    MergeRule& rule = parts_.merges.back();
    if (num_halves_++ == 0) rule.left_size = half.size();
    rule.merged += half;
    return true;
  }

  [[noreturn]] void bad_merge(std::size_t idx) const {
    fail(
        "{}: model.merges[{}] is not a pair; expected \"left right\" with one space, or [\"left\", "
        "\"right\"]",
        name_, idx);
  }

  TokenizerJsonParts& parts_;
  std::string_view name_;
  State state_ = State::kTree;
  std::vector<Json*> open_;  ///< containers of the tree that have begun and not ended, outermost first
  bool model_open_ = false;  ///< open_[1], where there is one, is the member "model"
  std::string key_;
  int num_halves_ = 0;
};

}  // namespace

TokenizerJsonParts parse_tokenizer_json(std::string_view json, std::string_view name) {
  TokenizerJsonParts parts;
  PartsReader reader(parts, name);
  if (const auto refused = read_json(json, reader)) fail("{}: not valid JSON: {}", name, refused->message);
  return parts;
}

}  // namespace baleen
