#include "base/json_fields.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(JsonFields, ReadWhatIsThereAndLeaveTheRest) {
  const Json json = Json::parse(R"({"count": 7, "also": 8.0, "share": 0.5, "on": true, "name": "n"})");
  const JsonFields fields(json, "f.json");
  std::int64_t count = 0, also = 0, absent = 3;
  double share = 0;
  bool on = false;
  std::string name;
  fields.take("count", count, WholeRange{1, 9});
  fields.take("also", also, WholeRange{1, 9});
  fields.take("absent", absent, WholeRange{1, 9});
  fields.take("share", share, RealRange{.min = 0, .max = 1});
  fields.take("on", on);
  fields.take("name", name);
  EXPECT_EQ(count, 7);
  EXPECT_EQ(also, 8);
  EXPECT_EQ(absent, 3);
  EXPECT_EQ(share, 0.5);
  EXPECT_TRUE(on);
  EXPECT_EQ(name, "n");
  EXPECT_NO_THROW(fields.end());
}

TEST(JsonFields, ASentenceNamesPlaceRangeAndFinding) {
  const Json json = Json::parse(R"({"a": 7.5, "b": 1e18, "c": 18446744073709551615, "d": "7", "e": null})");
  const JsonFields fields(json, "f.json");
  std::int64_t whole = 0;
  double real = 0;
  std::string text;
  bool flag = false;
  const std::string range = ": expected a whole number from 0 to 1,000; found ";
  const auto whole_error = [&](const char* name) {
    return error_of([&] { fields.take(name, whole, WholeRange{0, 1000}); });
  };
  EXPECT_EQ(whole_error("a"), "f.json.a" + range + "7.5");
  EXPECT_EQ(whole_error("b"), "f.json.b" + range + "1e+18");
  EXPECT_EQ(whole_error("c"), "f.json.c" + range + "18446744073709551615");
  EXPECT_EQ(whole_error("d"), "f.json.d" + range + R"(\"7\")");
  EXPECT_EQ(whole_error("e"), "f.json.e" + range + "null");
  EXPECT_EQ(error_of([&] { fields.take("b", real, RealRange{.min = 0, .max = 1}); }),
            "f.json.b: expected a number from 0 to 1; found 1e+18");
  EXPECT_EQ(error_of([&] { fields.take("a", text); }), "f.json.a: expected a text; found 7.5");
  EXPECT_EQ(error_of([&] { fields.take("a", flag); }), "f.json.a: expected true or false; found 7.5");
  EXPECT_EQ(error_of([&] { fields.need("z", flag); }), "f.json.z: missing");
  EXPECT_EQ(error_of([&] { static_cast<void>(fields.fields("a")); }),
            "f.json.a: expected an object, found number");
  EXPECT_EQ(whole, 0);
}

TEST(JsonFields, WhatNobodyAskedForIsRefused) {
  const Json json = Json::parse(R"({"known": 1, "knwon": 2})");
  const JsonFields fields(json, "f.json");
  static_cast<void>(fields.find("known"));
  EXPECT_EQ(error_of([&] { fields.end(); }), "f.json.knwon: no such field; there are known");
}

}  // namespace
}  // namespace baleen
