// JSON in, Python's JSON out.
#include "chat/python_json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace baleen {
namespace {

/// Parsed and written again; the error sentence where it does not parse.
std::string rewritten(std::string_view text) {
  const Result<PythonJson> value = parse_python_json(text);
  return value ? dump_python_json(value.value()) : value.error();
}

TEST(PythonJson, SeparatorsAndOrder) {
  EXPECT_EQ(rewritten("{\"b\":[1,2 ,{}],\n\"a\" :{ \"c\":null,\"d\":[] } , \"\":true}"),
            "{\"b\": [1, 2, {}], \"a\": {\"c\": null, \"d\": []}, \"\": true}");
}

TEST(PythonJson, RepeatedKeysKeepTheFirstPlaceAndTheLastValue) {
  EXPECT_EQ(rewritten("{\"a\":1,\"b\":2,\"a\":3,\"c\":4,\"b\":5}"), "{\"a\": 3, \"b\": 5, \"c\": 4}");
}

TEST(PythonJson, Integers) {
  EXPECT_EQ(rewritten("[0,-0,-12,9223372036854775808,-123456789012345678901234567890]"),
            "[0, 0, -12, 9223372036854775808, -123456789012345678901234567890]");
}

TEST(PythonJson, Floats) {
  EXPECT_EQ(rewritten("[1.0,1e16,1E15,123456789012345680.0,9007199254740993.0]"),
            "[1.0, 1e+16, 1000000000000000.0, 1.2345678901234568e+17, 9007199254740992.0]");
  EXPECT_EQ(rewritten("[0.0001,0.00001,1.5e-7,-0.0,0e5,12.50,0.1]"),
            "[0.0001, 1e-05, 1.5e-07, -0.0, 0.0, 12.5, 0.1]");
  EXPECT_EQ(rewritten("[1e400,-1e400,1e-400,-1e-400,5e-324]"), "[Infinity, -Infinity, 0.0, -0.0, 5e-324]");
  EXPECT_EQ(rewritten("[NaN,Infinity,-Infinity]"), "[NaN, Infinity, -Infinity]");
}

RC_GTEST_PROP(PythonJson, EveryFloatReadsBackToItself, (std::uint64_t bits)) {
  const double value = std::bit_cast<double>(bits);
  if (!std::isfinite(value)) return;
  const std::string text = python_float_text(value);
  RC_ASSERT(std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)) == bits);
  RC_ASSERT(text.find_first_of(".e") != std::string::npos);  // never taken for an integer
  RC_ASSERT(rewritten(text) == text);
}

TEST(PythonJson, StringsEscapeOnlyWhatPythonEscapes) {
  EXPECT_EQ(rewritten(R"("\"\\\/\b\f\n\r\t\u0001\u001F\u007f\u00e9\u2028\ud83d\ude00\u0000")"),
            "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\u00e9\u2028\U0001F600\\u0000\"");
}

RC_GTEST_PROP(PythonJson, EveryTextSurvivesQuoting, (std::string text)) {
  for (char& c : text) c = static_cast<char>(c & 0x7F);
  RC_ASSERT(*parse_python_json(quote_python_json(text)).value().as_string() == text);
}

TEST(PythonJson, RefusesWithThePlace) {
  EXPECT_EQ(rewritten(""), "byte 0: expected a JSON value, found the end of the text");
  EXPECT_EQ(rewritten("[1,]"), "byte 3: expected a JSON value, found \"]\"");
  EXPECT_EQ(rewritten("[1 2]"), "byte 3: expected ',' or ']' in an array, found \"2\"");
  EXPECT_EQ(rewritten("{\"a\" 1}"), "byte 5: expected ':' after a key, found \"1\"");
  EXPECT_EQ(rewritten("{\"a\":1,}"), "byte 7: expected a key in double quotes, found \"}\"");
  EXPECT_EQ(rewritten("{\"a\":1"), "byte 6: expected ',' or '}' in an object, found the end of the text");
  EXPECT_EQ(rewritten("\"a\nb\""),
            "byte 2: expected more of a string, with control characters escaped, found \"\\n\"");
  EXPECT_EQ(
      rewritten("\"\\x\""),
      "byte 2: expected an escape: one of \" \\ / b f n r t, or u and four hexadecimal digits, found \"x\"");
  EXPECT_EQ(rewritten("\"\\ud83d\""),
            "byte 2: half of a surrogate pair, which is no character; write both halves");
  EXPECT_EQ(rewritten("\"\\ude00\\ud83d\""),
            "byte 2: half of a surrogate pair, which is no character; write both halves");
  EXPECT_EQ(rewritten("1 狐"), "byte 2: expected the end of the JSON text, found \"狐\"");
  EXPECT_EQ(rewritten("\"\xC3\x28\""), "byte 1: not valid UTF-8; JSON text must be UTF-8");
  for (const char* text : {"01", "1.", ".5", "+1", "- 1", "1e", "0x1", "nul", "-NaN", "'a'",
                           "\xEF\xBB\xBF"
                           "1",
                           "{1:2}",
                           "\xC2\xA0"
                           "1"}) {
    EXPECT_FALSE(parse_python_json(text)) << text;
  }
}

TEST(PythonJson, NestingIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(rewritten(nested(kMaxJsonDepth)), nested(kMaxJsonDepth));
  EXPECT_EQ(rewritten(nested(kMaxJsonDepth + 1)), "byte 1000: nested deeper than 1000 levels");
  EXPECT_FALSE(parse_python_json(std::string(1'000'000, '[')));
  std::string objects;
  for (int i = 0; i < 5000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_python_json(objects));
}

}  // namespace
}  // namespace baleen
