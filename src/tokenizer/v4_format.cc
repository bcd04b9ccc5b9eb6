#include "tokenizer/v4_format.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json.h"

namespace baleen {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct SpecialToken {
  std::string_view text;
  bool special;     ///< decoders of others may leave it out
  bool normalized;  ///< matched only where no token without this was
  enum class Use : std::uint8_t { kOther, kChat, kV41 } use;
};
using enum SpecialToken::Use;

constexpr std::array<SpecialToken, 68> kSpecialTokens{{
    {"<｜begin▁of▁sentence｜>", true, false, kChat},
    {"<｜end▁of▁sentence｜>", true, false, kChat},
    {"<｜▁pad▁｜>", true, false, kChat},
    {"<｜fim▁hole｜>", false, true, kOther},
    {"<｜fim▁begin｜>", false, true, kOther},
    {"<｜fim▁end｜>", false, true, kOther},
    {"<｜User｜>", false, true, kChat},
    {"<｜Assistant｜>", false, true, kChat},
    {"<|EOT|>", false, true, kOther},
    {"<｜tool▁calls▁begin｜>", false, true, kOther},
    {"<｜tool▁calls▁end｜>", false, true, kOther},
    {"<｜tool▁call▁begin｜>", false, true, kOther},
    {"<｜tool▁call▁end｜>", false, true, kOther},
    {"<｜tool▁outputs▁begin｜>", false, true, kOther},
    {"<｜tool▁outputs▁end｜>", false, true, kOther},
    {"<｜tool▁output▁begin｜>", false, true, kOther},
    {"<｜tool▁output▁end｜>", false, true, kOther},
    {"<｜tool▁sep｜>", false, true, kOther},
    {"<｜begin▁of▁repo▁name｜>", false, true, kOther},
    {"<｜end▁of▁repo▁name｜>", false, true, kOther},
    {"<｜begin▁of▁file▁name｜>", false, true, kOther},
    {"<｜end▁of▁file▁name｜>", false, true, kOther},
    {"<｜begin▁of▁file｜>", false, true, kOther},
    {"<｜end▁of▁file｜>", false, true, kOther},
    {"<think>", false, true, kChat},
    {"</think>", false, true, kChat},
    {"｜DSML｜", false, true, kChat},
    {"<｜begin▁sys｜>", false, true, kOther},
    {"<｜end▁sys｜>", false, true, kOther},
    {"<｜latest_reminder｜>", false, true, kChat},
    {"<｜action｜>", false, true, kChat},
    {"<｜query｜>", false, true, kChat},
    {"<｜authority｜>", false, true, kChat},
    {"<｜domain｜>", false, true, kChat},
    {"<｜task｜>", false, true, kOther},
    {"<｜political｜>", false, true, kOther},
    {"<｜entity｜>", false, true, kOther},
    {"<｜title｜>", false, true, kChat},
    {"<｜safety｜>", false, true, kOther},
    {"<｜answer｜>", false, true, kOther},
    {"<｜search｜>", false, true, kOther},
    {"<dsml:", false, true, kOther},
    {"</dsml:", false, true, kOther},
    {"<｜search▁begin｜>", false, true, kOther},
    {"<｜search▁end｜>", false, true, kOther},
    {"<｜extracted_url｜>", false, true, kOther},
    {"<｜read_url｜>", false, true, kChat},
    {"<｜end_of_query｜>", true, false, kOther},
    {"<｜rl_image_pad｜>", true, false, kOther},
    {"<｜rl_image_start｜>", true, false, kOther},
    {"<｜image2｜>", false, false, kOther},
    {"<｜/table>｜", false, false, kOther},
    {"<｜table｜>", false, false, kOther},
    {"<｜/td｜>", false, false, kOther},
    {"<｜td｜>", false, false, kOther},
    {"<｜/tr｜>", false, false, kOther},
    {"<｜tr｜>", false, false, kOther},
    {"<｜/polygon｜>", true, false, kOther},
    {"<｜polygon｜>", true, false, kOther},
    {"<｜/point｜>", true, false, kOther},
    {"<｜point｜>", true, false, kOther},
    {"<｜/box｜>", true, false, kOther},
    {"<｜box｜>", true, false, kOther},
    {"<｜/ref｜>", true, false, kOther},
    {"<｜ref｜>", true, false, kOther},
    {"<｜image｜>", true, false, kOther},
    // Their flags are those of <｜User｜> and <｜image｜>: which V4.1 has, no source says.
    {"<｜System｜>", false, true, kV41},
    {"<｜deepseek_image｜>", true, false, kV41},
}};

/// Everything of tokenizer.json but its tokens and merges.
constexpr std::string_view kParts =
    R"json({
  "normalizer": {
    "type": "Sequence",
    "normalizers": []
  },
  "pre_tokenizer": {
    "type": "Sequence",
    "pretokenizers": [
      {
        "type": "Split",
        "pattern": {
          "Regex": "\\p{N}{1,3}"
        },
        "behavior": "Isolated",
        "invert": false
      },
      {
        "type": "Split",
        "pattern": {
          "Regex": "[一-龥぀-ゟ゠-ヿ]+"
        },
        "behavior": "Isolated",
        "invert": false
      },
      {
        "type": "Split",
        "pattern": {
          "Regex": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|)json"
    R"json([^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|)json"
    R"json(\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
        },
        "behavior": "Isolated",
        "invert": false
      },
      {
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": false
      }
    ]
  },
  "post_processor": {
    "type": "ByteLevel",
    "add_prefix_space": true,
    "trim_offsets": false,
    "use_regex": true
  },
  "decoder": {
    "type": "ByteLevel",
    "add_prefix_space": true,
    "trim_offsets": true,
    "use_regex": true
  }
})json";

/// Of tokenizer_config.json.
constexpr std::string_view kConfig = R"json({
  "add_bos_token": false,
  "add_eos_token": false,
  "bos_token": {
    "__type": "AddedToken",
    "content": "<｜begin▁of▁sentence｜>",
    "lstrip": false,
    "normalized": true,
    "rstrip": false,
    "single_word": false
  },
  "clean_up_tokenization_spaces": false,
  "eos_token": {
    "__type": "AddedToken",
    "content": "<｜end▁of▁sentence｜>",
    "lstrip": false,
    "normalized": true,
    "rstrip": false,
    "single_word": false
  },
  "legacy": true,
  "model_max_length": 1048576,
  "pad_token": {
    "__type": "AddedToken",
    "content": "<｜end▁of▁sentence｜>",
    "lstrip": false,
    "normalized": true,
    "rstrip": false,
    "single_word": false
  },
  "sp_model_kwargs": {},
  "unk_token": null,
  "tokenizer_class": "PreTrainedTokenizerFast"
})json";

const OrderedJson& parts() {
  static const OrderedJson kParsed = [] {
    Result<OrderedJson> parsed = parse_ordered_json(kParts);
    BALEEN_CHECK(parsed.ok());
    return std::move(parsed).value();
  }();
  return kParsed;
}

OrderedJson added_token_json(const AddedToken& token) {
  return {{"id", token.id},  {"content", token.text},          {"single_word", false},    {"lstrip", false},
          {"rstrip", false}, {"normalized", token.normalized}, {"special", token.special}};
}

}  // namespace

std::vector<AddedToken> v4_special_tokens(SpecialTokenSet set) {
  std::vector<AddedToken> tokens;
  for (const SpecialToken& token : kSpecialTokens) {
    const bool is_wanted = token.use == kChat || (token.use == kOther && set == SpecialTokenSet::kAll) ||
                           (token.use == kV41 && set == SpecialTokenSet::kV41);
    if (is_wanted)
      tokens.push_back(
          {.text = std::string(token.text), .special = token.special, .normalized = token.normalized});
  }
  return tokens;
}

std::vector<SplitRule> v4_split_rules() {
  std::vector<SplitRule> rules;
  for (const OrderedJson& step : parts()["pre_tokenizer"]["pretokenizers"]) {
    if (step["type"] == "Split") rules.push_back({step["pattern"]["Regex"].get<std::string>()});
  }
  return rules;
}

std::string v4_tokenizer_json(const TokenizerJson& tokenizer) {
  OrderedJson added = OrderedJson::array(), rules = OrderedJson::array();
  for (const AddedToken& token : tokenizer.added_tokens) added.push_back(added_token_json(token));
  OrderedJson::object_t
      vocabulary;  // appended to as a vector: looking for the key each time would take the square of its size
  for (const VocabularyEntry& entry : tokenizer.vocabulary) vocabulary.emplace_back(entry.text, entry.id);
  for (const MergeRule& rule : tokenizer.merges)
    rules.push_back(rule.merged.substr(0, rule.left_size) + " " + rule.merged.substr(rule.left_size));
  OrderedJson file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = std::move(added);
  for (const auto& [name, part] : parts().items()) file[name] = part;
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false}};
  file["model"]["vocab"] = std::move(vocabulary);
  file["model"]["merges"] = std::move(rules);
  return file.dump(2) + "\n";
}

std::string v4_tokenizer_config_json() { return std::string(kConfig) + "\n"; }

}  // namespace baleen
