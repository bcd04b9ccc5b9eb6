// What is read from tokenizer.json, and that damage to it yields a sentence that says where.
#include "tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "tests/tokenizer/small_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

std::string sentence_for(const std::string& text) {
  try {
    (void)Tokenizer::parse(text, "t.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

Json sound() {
  Json json = small_vocabulary({{"a", "b"}, {"ab", "c"}});
  json["added_tokens"] = {added_token(258, "<x>", true, false)};
  Json& steps = json["pre_tokenizer"]["pretokenizers"];
  steps.insert(steps.begin(), split("Regex", "\\p{N}+"));
  return json;
}

TEST(TokenizerJson, ReadsASoundFile) {
  const TokenizerJson json = read_tokenizer_json(sound().dump(), "t.json");
  EXPECT_EQ(json.vocabulary.size(), 258u);
  ASSERT_EQ(json.merges.size(), 2u);
  EXPECT_EQ(json.merges[1].merged, "abc");
  EXPECT_EQ(json.merges[1].left_size, 2u);
  ASSERT_EQ(json.splits.size(), 1u);
  EXPECT_EQ(json.splits[0].pattern, "\\p{N}+");
  ASSERT_EQ(json.added_tokens.size(), 1u);
  EXPECT_TRUE(json.added_tokens[0].special);
}

TEST(TokenizerJson, MergesMayBeWrittenAsPairs) {
  Json json = sound();
  json["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"ab", "c"})});
  const TokenizerJson read = read_tokenizer_json(json.dump(), "t.json");
  ASSERT_EQ(read.merges.size(), 2u);
  EXPECT_EQ(read.merges[1].merged, "abc");
  EXPECT_EQ(read.merges[1].left_size, 2u);
}

struct Damage {
  const char* name;
  std::function<void(Json&)> change;
  const char* sentence;  ///< a part of it
};

const std::vector<Damage> kDamages = {
    {"no model", [](Json& j) { j.erase("model"); }, "t.json: model is missing"},
    {"model is a list", [](Json& j) { j["model"] = Json::array(); },
     "t.json: model is array; an object was expected"},
    {"other model", [](Json& j) { j["model"]["type"] = "Unigram"; },
     "model.type is \"Unigram\"; only \"BPE\""},
    {"no vocabulary", [](Json& j) { j["model"].erase("vocab"); },
     "model.vocab is null; an object of token: id"},
    {"vocabulary is a list", [](Json& j) { j["model"]["vocab"] = {1}; }, "model.vocab is array; an object"},
    {"id is a string", [](Json& j) { j["model"]["vocab"]["a"] = "7"; },
     "model.vocab gives \"a\" \"7\"; a whole"},
    {"id is negative", [](Json& j) { j["model"]["vocab"]["a"] = -7; }, "model.vocab gives \"a\" -7; a whole"},
    {"id is a list", [](Json& j) { j["model"]["vocab"]["a"] = {7}; }, "model.vocab gives \"a\" []; a whole"},
    {"id is absurd", [](Json& j) { j["model"]["vocab"]["a"] = 1ull << 40; },
     "the id 1099511627776; at most 4194303"},
    {"id twice", [](Json& j) { j["model"]["vocab"]["ab"] = 7; }, "id 7 belongs to both"},
    {"a byte is missing", [](Json& j) { j["model"]["vocab"].erase("!"); },
     "has no \"!\", the token of byte 0x21"},
    {"no merges", [](Json& j) { j["model"].erase("merges"); }, "model.merges is null; an array was expected"},
    {"merge of one", [](Json& j) { j["model"]["merges"][1] = "abc"; }, "model.merges[1] is not a pair"},
    {"merge of three", [](Json& j) { j["model"]["merges"][1] = "a b c"; }, "model.merges[1] is not a pair"},
    {"pair of one",
     [](Json& j) {
       j["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"a"})});
     },
     "model.merges[1] is not a pair"},
    {"pair of numbers",
     [](Json& j) {
       j["model"]["merges"] = {{1, 2}};
     },
     "model.merges[0] is not a pair"},
    {"merge is a number", [](Json& j) { j["model"]["merges"][0] = 5; }, "model.merges[0] is not a pair"},
    {"merge is an object",
     [](Json& j) {
       j["model"]["merges"][0] = {{"a", 1}};
     },
     "model.merges[0] is not a pair"},
    {"unknown half", [](Json& j) { j["model"]["merges"][1] = "ax b"; }, "\"ax\" is not in model.vocab"},
    {"unknown result", [](Json& j) { j["model"]["merges"][1] = "b a"; }, "\"ba\" is not in model.vocab"},
    {"merge twice", [](Json& j) { j["model"]["merges"][1] = "a b"; }, "model.merges[1] repeats the pair"},
    {"subword prefix", [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }, "prefix is set"},
    {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, "model.dropout is set"},
    {"ignore_merges", [](Json& j) { j["model"]["ignore_merges"] = true; }, "model.ignore_merges is true"},
    {"normalizer",
     [](Json& j) {
       j["normalizer"] = {{"type", "NFC"}};
     },
     "normalizer is a \"NFC\""},
    {"no pre-tokenizer", [](Json& j) { j.erase("pre_tokenizer"); }, "t.json: pre_tokenizer is missing"},
    {"unknown pre-tokenizer",
     [](Json& j) {
       j["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Digits"}};
     },
     "pre_tokenizer.pretokenizers[0] is a \"Digits\"; expected \"Split\""},
    {"nothing byte-level", [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); },
     "[0] is a \"Split\"; expected"},
    {"other behavior", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; },
     "behavior is \"Removed\"; only \"Isolated\""},
    {"no pattern", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = Json::object(); },
     "pattern has neither \"Regex\" nor \"String\""},
    {"broken pattern", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0] = split("Regex", "[a"); },
     "does not compile"},
    {"prefix space", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
     "add_prefix_space is true"},
    {"built-in pattern", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1].erase("use_regex"); },
     "use_regex is not false"},
    {"other decoder", [](Json& j) { j["decoder"]["type"] = "WordPiece"; }, "decoder is a \"WordPiece\""},
    {"no decoder", [](Json& j) { j.erase("decoder"); }, "decoder is null; an object was expected"},
    {"added tokens are an object", [](Json& j) { j["added_tokens"] = Json::object(); },
     "added_tokens is object"},
    {"added token without id", [](Json& j) { j["added_tokens"][0].erase("id"); },
     "added_tokens[0].id is null"},
    {"added token without text", [](Json& j) { j["added_tokens"][0]["content"] = ""; }, "content is empty"},
    {"added token strips", [](Json& j) { j["added_tokens"][0]["lstrip"] = true; },
     "added_tokens[0].lstrip is true"},
    {"added token takes an id", [](Json& j) { j["added_tokens"][0]["id"] = 65; }, "id 65 belongs to both"},
    {"added token has another id", [](Json& j) { j["added_tokens"][0]["content"] = "ab"; },
     "\"ab\" has id 256 in model.vocab and 258 in added_tokens"},
    {"added token twice", [](Json& j) { j["added_tokens"].push_back(added_token(259, "<x>", true, false)); },
     "added_tokens lists \"<x>\" twice"},
};

TEST(TokenizerJson, DamageYieldsASentence) {
  ASSERT_EQ(sentence_for(sound().dump()), "accepted");
  for (const Damage& damage : kDamages) {
    Json json = sound();
    damage.change(json);
    EXPECT_NE(sentence_for(json.dump()).find(damage.sentence), std::string::npos)
        << damage.name << ": " << sentence_for(json.dump());
  }
}

TEST(TokenizerJson, TokenListedTwice) {
  std::string text = sound().dump();
  const std::string entry = "\"ab\":256";
  text.insert(text.find(entry), entry + ",");
  EXPECT_NE(sentence_for(text).find("model.vocab lists \"ab\" twice, as 256 and 256"), std::string::npos)
      << sentence_for(text);
}

TEST(TokenizerJson, CutShortAnywhere) {
  const std::string text = sound().dump();
  for (std::size_t size = 0; size < text.size(); size += 1 + size / 50) {
    EXPECT_NE(sentence_for(text.substr(0, size)).find("t.json: not valid JSON at byte "), std::string::npos)
        << size << ": " << sentence_for(text.substr(0, size));
  }
}

TEST(TokenizerJson, OtherJson) {
  for (const char* text : {"[]", "3", "null", "\"x\"", "{}", "[{\"model\": 1}, {\"vocab\": {}}]"}) {
    EXPECT_EQ(sentence_for(text).rfind("t.json: ", 0), 0u) << text << ": " << sentence_for(text);
  }
}

class Config : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "tokenizer_config_test";
    std::filesystem::create_directories(folder_);
    write("tokenizer.json", sound().dump());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const char* name, const std::string& text) {
    AtomicFileWriter file(folder_ / name);
    file.write(text);
    file.commit();
  }
  std::string sentence(const std::string& config) {
    write("tokenizer_config.json", config);
    try {
      (void)Tokenizer::load(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

TEST_F(Config, NamesBeginAndEnd) {
  EXPECT_EQ(Tokenizer::load(folder_).bos(), std::nullopt) << "no config";
  write("tokenizer_config.json", R"({"bos_token": "<x>", "eos_token": {"content": "<x>"}})");
  for (const auto& path : {folder_, folder_ / "tokenizer.json"}) {
    EXPECT_EQ(Tokenizer::load(path).bos(), 258);
    EXPECT_EQ(Tokenizer::load(path).eos(), 258);
  }
  write("tokenizer_config.json", R"({"bos_token": null})");
  EXPECT_EQ(Tokenizer::load(folder_).bos(), std::nullopt);
}

TEST_F(Config, DamageYieldsASentence) {
  EXPECT_NE(sentence("{\"bos").find("tokenizer_config.json: not a JSON object"), std::string::npos);
  EXPECT_NE(sentence("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(sentence(R"({"bos_token": 3})").find("bos_token is number"), std::string::npos);
  EXPECT_NE(sentence(R"({"eos_token": "<y>"})").find("eos_token is \"<y>\", which is not an added token"),
            std::string::npos);
}

TEST_F(Config, AbsentFolder) {
  EXPECT_THROW((void)Tokenizer::load(folder_ / "absent"), Error);
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_THROW((void)Tokenizer::load(folder_), Error);
}

TEST(TokenizerJson, SentencesShowLittleOfTheFile) {
  const std::string much(20'000, 'x');
  const std::vector<std::function<void(Json&)>> damages = {
      [&](Json& j) { j["model"]["type"] = much; },
      [&](Json& j) { j["model"]["vocab"][much] = much; },
      [&](Json& j) { j["model"]["vocab"][much] = 7; },
      [&](Json& j) { j["model"]["vocab"][much] = Json::array(); },
      [&](Json& j) { j["model"]["merges"][0] = much + " b"; },
      [&](Json& j) {
        j["normalizer"] = {{"type", much}};
      },
      [&](Json& j) { j["decoder"]["type"] = much; },
      [&](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["type"] = much; },
      [&](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = much; },
      [&](Json& j) { j["pre_tokenizer"]["pretokenizers"][0] = split("Regex", much + "[a"); },
      [&](Json& j) { j["pre_tokenizer"]["pretokenizers"][0] = split("Regex", "(?:" + much + ")*"); },
      [&](Json& j) { j["pre_tokenizer"]["pretokenizers"][0] = split("Regex", "[a&&b]" + much); },
      [&](Json& j) { j["added_tokens"][0]["id"] = much; },
      [&](Json& j) {
        j["added_tokens"] =
            Json::array({added_token(258, much, true, false), added_token(259, much, true, false)});
      },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    Json json = sound();
    damages[i](json);
    const std::string sentence = sentence_for(json.dump());
    EXPECT_NE(sentence, "accepted") << i;
    EXPECT_LT(sentence.size(), 1000u) << i << sentence.substr(0, 300);
  }
  // What the library says of text that is no JSON repeats the text.
  const std::string sentence = sentence_for("{\"model\": \"" + much + "\x01\"}");
  EXPECT_NE(sentence.find("not valid JSON at byte"), std::string::npos) << sentence.substr(0, 300);
  EXPECT_LT(sentence.size(), 1000u);
}

}  // namespace
}  // namespace baleen
