#include "tokenizer/v4_format.h"

#include <array>
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
  bool in_chat;
};

constexpr std::array<SpecialToken, 66> kSpecialTokens{{
    {"<｜begin▁of▁sentence｜>", true, false, true},
    {"<｜end▁of▁sentence｜>", true, false, true},
    {"<｜▁pad▁｜>", true, false, true},
    {"<｜fim▁hole｜>", false, true, false},
    {"<｜fim▁begin｜>", false, true, false},
    {"<｜fim▁end｜>", false, true, false},
    {"<｜User｜>", false, true, true},
    {"<｜Assistant｜>", false, true, true},
    {"<|EOT|>", false, true, false},
    {"<｜tool▁calls▁begin｜>", false, true, false},
    {"<｜tool▁calls▁end｜>", false, true, false},
    {"<｜tool▁call▁begin｜>", false, true, false},
    {"<｜tool▁call▁end｜>", false, true, false},
    {"<｜tool▁outputs▁begin｜>", false, true, false},
    {"<｜tool▁outputs▁end｜>", false, true, false},
    {"<｜tool▁output▁begin｜>", false, true, false},
    {"<｜tool▁output▁end｜>", false, true, false},
    {"<｜tool▁sep｜>", false, true, false},
    {"<｜begin▁of▁repo▁name｜>", false, true, false},
    {"<｜end▁of▁repo▁name｜>", false, true, false},
    {"<｜begin▁of▁file▁name｜>", false, true, false},
    {"<｜end▁of▁file▁name｜>", false, true, false},
    {"<｜begin▁of▁file｜>", false, true, false},
    {"<｜end▁of▁file｜>", false, true, false},
    {"<think>", false, true, true},
    {"</think>", false, true, true},
    {"｜DSML｜", false, true, true},
    {"<｜begin▁sys｜>", false, true, false},
    {"<｜end▁sys｜>", false, true, false},
    {"<｜latest_reminder｜>", false, true, true},
    {"<｜action｜>", false, true, true},
    {"<｜query｜>", false, true, true},
    {"<｜authority｜>", false, true, true},
    {"<｜domain｜>", false, true, true},
    {"<｜task｜>", false, true, false},
    {"<｜political｜>", false, true, false},
    {"<｜entity｜>", false, true, false},
    {"<｜title｜>", false, true, true},
    {"<｜safety｜>", false, true, false},
    {"<｜answer｜>", false, true, false},
    {"<｜search｜>", false, true, false},
    {"<dsml:", false, true, false},
    {"</dsml:", false, true, false},
    {"<｜search▁begin｜>", false, true, false},
    {"<｜search▁end｜>", false, true, false},
    {"<｜extracted_url｜>", false, true, false},
    {"<｜read_url｜>", false, true, true},
    {"<｜end_of_query｜>", true, false, false},
    {"<｜rl_image_pad｜>", true, false, false},
    {"<｜rl_image_start｜>", true, false, false},
    {"<｜image2｜>", false, false, false},
    {"<｜/table>｜", false, false, false},
    {"<｜table｜>", false, false, false},
    {"<｜/td｜>", false, false, false},
    {"<｜td｜>", false, false, false},
    {"<｜/tr｜>", false, false, false},
    {"<｜tr｜>", false, false, false},
    {"<｜/polygon｜>", true, false, false},
    {"<｜polygon｜>", true, false, false},
    {"<｜/point｜>", true, false, false},
    {"<｜point｜>", true, false, false},
    {"<｜/box｜>", true, false, false},
    {"<｜box｜>", true, false, false},
    {"<｜/ref｜>", true, false, false},
    {"<｜ref｜>", true, false, false},
    {"<｜image｜>", true, false, false},
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
    if (set == SpecialTokenSet::kAll || token.in_chat)
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
