#include "tokenizer/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/quoted_text.h"
#include "tokenizer/tokenizer_json_sax.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

/// A value of the tree together with where it stands, so that every complaint can say so.
struct Place {
  const Json& value;
  std::string where;  ///< "tokenizer.json: model.type"

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{} {}", where, fmt::format(format, std::forward<Args>(args)...));
  }

  /// The member `key`; null where there is none.
  [[nodiscard]] Place at(const char* key) const {
    static const Json kNull;
    if (!value.is_object()) refuse("is {}; an object was expected", value.type_name());
    const auto found = value.find(key);
    return {found == value.end() ? kNull : *found, where + (where.back() == ':' ? " " : ".") + key};
  }

  [[nodiscard]] Place at(std::size_t idx) const { return {value[idx], fmt::format("{}[{}]", where, idx)}; }

  [[nodiscard]] const std::string& string() const {
    if (!value.is_string()) refuse("is {}; a string was expected", value.type_name());
    return value.get_ref<const std::string&>();
  }

  /// False where the member is absent.
  [[nodiscard]] bool flag() const {
    if (value.is_null()) return false;
    if (!value.is_boolean()) refuse("is {}; true or false was expected", value.type_name());
    return value.get<bool>();
  }

  [[nodiscard]] std::size_t array_size() const {
    if (!value.is_array()) refuse("is {}; an array was expected", value.type_name());
    return value.size();
  }
};

AddedToken read_added_token(const Place& place) {
  const Place id = place.at("id");
  if (!id.value.is_number_unsigned() || id.value > kMaxTokenId) {
    id.refuse("is {}; a whole number from 0 to {} was expected", shortened_text(id.value.dump()),
              kMaxTokenId);
  }
  const Place content = place.at("content");
  if (content.string().empty()) content.refuse("is empty; an added token needs some text to be matched by");
  for (const char* option : {"single_word", "lstrip", "rstrip"}) {
    if (place.at(option).flag())
      place.at(option).refuse("is true; only exact matching of added tokens is supported");
  }
  return {id.value.get<TokenId>(), content.string(), place.at("special").flag(),
          place.at("normalized").flag()};
}

SplitRule read_split(const Place& split) {
  const Place behavior = split.at("behavior");
  if (behavior.string() != "Isolated") {
    behavior.refuse("is {}; only \"Isolated\" is supported", quoted_text(behavior.string()));
  }
  // "invert" swaps matches and gaps; both become pieces here, so it changes nothing.
  const Place pattern = split.at("pattern");
  const Place regex = pattern.at("Regex");
  if (!regex.value.is_null()) return {regex.string(), false};
  const Place literal = pattern.at("String");
  if (literal.value.is_null()) pattern.refuse("has neither \"Regex\" nor \"String\"");
  return {literal.string(), true};
}

void check_byte_level(const Place& byte_level) {
  if (byte_level.at("add_prefix_space").flag()) {
    byte_level.at("add_prefix_space").refuse("is true; only false is supported");
  }
  // Absent means true to the library that writes these files.
  const Place use_regex = byte_level.at("use_regex");
  if (use_regex.value.is_null() || use_regex.flag()) {
    use_regex.refuse("is not false; write the pattern as a Split before it");
  }
}

/// A list of Splits and one ByteLevel at its end, or that ByteLevel alone.
std::vector<SplitRule> read_pre_tokenizer(const Place& place) {
  if (place.value.is_null()) place.refuse("is missing; a Sequence of Splits and a ByteLevel was expected");
  const bool sequence = place.at("type").string() == "Sequence";
  const Place list = sequence ? place.at("pretokenizers") : place;
  const std::size_t size = sequence ? list.array_size() : 1;
  if (size == 0) list.refuse("is empty; a ByteLevel was expected");
  std::vector<SplitRule> splits;
  for (std::size_t i = 0; i < size; ++i) {
    const Place step = sequence ? list.at(i) : list;
    const std::string& type = step.at("type").string();
    const bool last = i + 1 == size;
    if (type == "ByteLevel" && last) {
      check_byte_level(step);
    } else if (type == "Split" && !last) {
      splits.push_back(read_split(step));
    } else {
      step.refuse("is a {}; expected \"Split\" steps and \"ByteLevel\" as the last one", quoted_text(type));
    }
  }
  return splits;
}

/// Text reaches the splits as it is: nothing, or an empty sequence of normalizers.
void check_normalizer(const Place& place) {
  if (place.value.is_null()) return;
  const std::string& type = place.at("type").string();
  if (type != "Sequence")
    place.refuse("is a {}; only null or an empty Sequence is supported", quoted_text(type));
  const Place list = place.at("normalizers");
  if (list.array_size() != 0) list.refuse("is not empty; normalization is not supported");
}

void check_decoder(const Place& place) {
  const std::string& type = place.at("type").string();
  if (type != "ByteLevel") place.refuse("is a {}; only \"ByteLevel\" is supported", quoted_text(type));
}

/// Vocabulary and merges were taken out of the tree already; this checks what was left of the model.
void check_model(const Place& model) {
  if (model.value.is_null()) model.refuse("is missing; a BPE model was expected");
  const Place type = model.at("type");
  if (type.string() != "BPE") type.refuse("is {}; only \"BPE\" is supported", quoted_text(type.string()));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Place place = model.at(affix);
    if (!place.value.is_null() && !place.string().empty()) place.refuse("is set; only null is supported");
  }
  const Place dropout = model.at("dropout");
  if (!dropout.value.is_null() && dropout.value != 0)
    dropout.refuse("is set; encoding here is deterministic");
  const Place ignore_merges = model.at("ignore_merges");
  if (ignore_merges.flag()) ignore_merges.refuse("is true; only false is supported");
  const Place vocabulary = model.at("vocab");
  if (!vocabulary.value.is_object()) {
    vocabulary.refuse("is {}; an object of token: id was expected", vocabulary.value.type_name());
  }
  (void)model.at("merges").array_size();
}

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view json, std::string_view name) {
  TokenizerJsonParts parts = parse_tokenizer_json(json, name);
  const Place root{parts.rest, std::string(name) + ":"};
  check_model(root.at("model"));
  check_normalizer(root.at("normalizer"));
  check_decoder(root.at("decoder"));
  TokenizerJson result{std::move(parts.vocabulary), std::move(parts.merges), {}, {}};
  const Place added = root.at("added_tokens");
  for (std::size_t i = 0; !added.value.is_null() && i < added.array_size(); ++i) {
    result.added_tokens.push_back(read_added_token(added.at(i)));
  }
  result.splits = read_pre_tokenizer(root.at("pre_tokenizer"));
  return result;
}

}  // namespace baleen
