// JSON lines of text to JSON lines of ids, and back.
#include "app/tokenize.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"

namespace baleen {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = Tokenizer::load("models/stories");
  return loaded;
}

std::string answers(const std::string& lines) {
  std::istringstream in(lines);
  std::ostringstream out;
  tokenize_lines(tokenizer(), in, out, /*interactive=*/false);
  return out.str();
}

/// The answers before the failure, and its sentence.
std::pair<std::string, std::string> failing(const std::string& lines) {
  std::istringstream in(lines);
  std::ostringstream out;
  try {
    tokenize_lines(tokenizer(), in, out, /*interactive=*/false);
  } catch (const Error& error) {
    return {out.str(), error.what()};
  }
  return {out.str(), ""};
}

TEST(TokenizeLines, AnswersEveryLineInOrder) {
  EXPECT_EQ(answers(R"({"text": "<｜begin▁of▁sentence｜>"})"
                    "\n\n \t\r\n"
                    R"({"ids": [0, 1]})"
                    "\n"
                    R"({"text": ""})"),
            "{\"ids\":[0]}\n{\"text\":\"<｜begin▁of▁sentence｜><｜end▁of▁sentence｜>\"}\n{\"ids\":[]}\n");
  EXPECT_EQ(answers(""), "");
}

TEST(TokenizeLines, WhatGoesInComesBack) {
  const std::string text = R"({"text":"The old fox said: \"Grüße, 狐!\"\n"})"
                           "\n";
  EXPECT_EQ(answers(answers(text)), text);
}

TEST(TokenizeLines, CutsOfACharacterBecomeReplacements) {
  const auto ids = tokenizer().encode("狐").value();
  ASSERT_GT(ids.size(), 1u);  // a rare character is spelt in bytes
  EXPECT_EQ(answers("{\"ids\": [" + std::to_string(ids[0]) + "]}"), "{\"text\":\"\uFFFD\"}\n");
}

TEST(TokenizeLines, StopsAtTheFirstBadLineAndNamesIt) {
  const std::string good = "{\"ids\":[0]}\n";
  const std::pair<const char*, const char*> bad[] = {
      {"{\"ids\": [4096]}", "4096 is not the id of a token"},
      {"{\"ids\": [-1]}", "-1 is not"},
      {"{\"ids\": [1.5]}", "1.5 is not"},
      {"{\"ids\": \"1\"}", "an array of numbers was expected"},
      {"{\"text\": 1}", "a string was expected"},
      {"{\"text\": \"a\", \"ids\": []}", "expected {\"text\""},
      {"{}", "expected {\"text\""},
      {"[1, 2]", "expected {\"text\""},
      {"not json", "not valid JSON"},
      {"{\"text\": \"\xFF\"}", "not valid UTF-8 at byte 10"},
  };
  for (const auto& [line, part] : bad) {
    const auto [before, sentence] =
        failing("{\"text\": \"<｜begin▁of▁sentence｜>\"}\n\n" + std::string(line) + "\n{\"ids\": []}\n");
    EXPECT_EQ(before, good) << line;
    EXPECT_NE(sentence.find("line 3"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  }
}

TEST(TokenizeLines, AReaderThatIsGoneIsAFailure) {
  std::istringstream in("{\"ids\": [0]}\n{\"ids\": [0]}\n");
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THROW(tokenize_lines(tokenizer(), in, out, false), Error);
}

}  // namespace
}  // namespace baleen
