// Ids and texts that an independent implementation gave: goldens/ for the bundled model, and 100 cases for
// the released 129,280-entry vocabulary where they are present.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

struct Case {
  std::string text;
  std::vector<TokenId> ids;
  std::string decoded;
};

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json["text"], json["ids"], json["decoded"]});
  }
  return cases;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void expect_all(const Tokenizer& tokenizer, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const auto ids = tokenizer.encode(one.text);
    ASSERT_TRUE(ids.ok()) << one.text << ": " << ids.error();
    EXPECT_EQ(ids.value(), one.ids) << one.text;
    EXPECT_EQ(tokenizer.decode(one.ids), one.decoded) << one.text;
    EXPECT_EQ(streamed(tokenizer, one.ids), one.decoded) << one.text;
  }
}

TEST(Cases, BundledModel) {
  const std::vector<Case> cases = read_cases("tests/tokenizer/goldens/stories.jsonl");
  ASSERT_GE(cases.size(), 30u);
  const Tokenizer tokenizer = Tokenizer::load("models/stories");
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  EXPECT_EQ(tokenizer.bos(), 0);
  EXPECT_EQ(tokenizer.eos(), 1);
  expect_all(tokenizer, cases);
}

TEST(Cases, ReleasedVocabulary) {
  const std::filesystem::path folder = "../shared/data/tokenizer";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const std::vector<Case> cases = read_cases(folder / "cases.jsonl");
  ASSERT_EQ(cases.size(), 100u);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.vocab_size(), 129'280);
  EXPECT_EQ(tokenizer.bos(), 0);
  EXPECT_EQ(tokenizer.eos(), 1);
  EXPECT_EQ(tokenizer.id_of("<｜User｜>"), 128'803);
  EXPECT_EQ(tokenizer.id_of("<｜Assistant｜>"), 128'804);
  EXPECT_EQ(tokenizer.id_of("</think>"), 128'822);
  EXPECT_EQ(tokenizer.id_of("｜DSML｜"), 128'825);
  EXPECT_EQ(tokenizer.id_of("<｜title｜>"), 128'836);
  expect_all(tokenizer, cases);
}

}  // namespace
}  // namespace baleen
