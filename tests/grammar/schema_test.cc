#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "tests/grammar/instances.h"
#include "tests/grammar/walks.h"

namespace baleen {
namespace {

/// Whose random instances must be accepted, and random replies valid.
const std::vector<std::string> kSchemas = {
    R"(true)",
    R"({})",
    R"({"type": "string"})",
    R"({"type": ["integer", "null"]})",
    R"({"type": "string", "minLength": 2, "maxLength": 5})",
    R"({"type": "string", "maxLength": 0})",
    R"({"type": "string", "minLength": 30})",
    R"({"type": "integer", "minimum": -17, "maximum": 1203})",
    R"({"enum": ["a", "ab", "日本", "q\"uote", 1, 1.5, null, [1, {"x": true}]]})",
    R"({"const": {"a": [1, 2]}})",
    R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4})",
    R"({"type": "array", "items": {"type": "integer"}, "maxItems": 1})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "null"}, "minItems": 1})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2})",
    R"({"type": "object", "properties": {}, "additionalProperties": false})",
    R"({"type": "object"})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}, "required": ["b"]})",
    R"({"type": "object", "properties": {"ключ": {"type": "boolean"}, "q\"\n": {"type": "null"}}, "required": ["ключ", "q\"\n"]})",
    R"({"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
    R"({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}})",
    R"({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2})",
    R"({"anyOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
                  {"type": "object", "properties": {"kind": {"const": "ab"}, "s": {"type": "string"}}, "required": ["kind"]}]})",
    R"({"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]}}, "$ref": "#/$defs/node"})",
    R"({"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["children"]})",
};

/// Random replies of these must be valid as well; instances of them are hard to invent.
const std::vector<std::string> kMoreSchemas = {
    R"({"type": "number", "minimum": -2.5, "exclusiveMaximum": 3.25})",
    R"({"type": "integer", "exclusiveMinimum": 0})",
    R"({"type": "string", "pattern": "^[a-c]{2,4}(-\\d+)?$"})",
    R"({"type": "string", "pattern": "^b\\wd"})",
    R"({"type": "string", "pattern": "^(é|日)+$", "maxLength": 4})",
    R"({"type": "string", "pattern": "^(abc)+$", "minLength": 4, "maxLength": 8})",
    R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                  {"properties": {"b": {"type": "string"}}, "required": ["b"]}]})",
    R"({"$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer", "minimum": 3}}, "required": ["id"]}},
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"id": {"maximum": 5}, "s": {"type": "string"}}}]})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
    R"({"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"},
        "l": {"allOf": [{"$ref": "#/$defs/m"}], "description": "left"}, "r": {"$ref": "#/$defs/m", "type": ["object", "null"]}},
        "required": ["v"]}, "m": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "$ref": "#/$defs/n"})",
    R"({"type": "object", "propertyNames": {"pattern": "^[a-z]{1,3}$"}, "additionalProperties": {"type": "integer"}, "minProperties": 1})",
    R"({"type": ["string", "array"], "enum": ["x", 3, "yy"], "minLength": 2})",
    R"({"minimum": 3})",
};

TEST(JsonSchema, RandomInstancesFit) {
  std::mt19937 random(1);
  for (const std::string& text : kSchemas) {
    const PythonJson schema = json(text);
    const Result<Grammar> grammar = json_schema_grammar(schema);
    ASSERT_TRUE(grammar.ok()) << text << ": " << grammar.error();
    for (int i = 0; i < 60; ++i) {
      const PythonJson value = random_instance(schema, schema, random);
      ASSERT_TRUE(is_valid(value, schema, schema)) << text << ": " << dump_python_json(value);
      EXPECT_TRUE(accepts_text(grammar.value(), dump_python_json(value)))
          << text << ": " << dump_python_json(value);
    }
  }
}

void expect_valid_replies(const WalkVocabulary& vocabulary, int replies, bool check) {
  std::mt19937 random(2);
  for (const auto* schemas : {&kSchemas, &kMoreSchemas}) {
    for (const std::string& text : *schemas) {
      const PythonJson schema = json(text);
      const Result<Grammar> grammar = json_schema_grammar(schema);
      ASSERT_TRUE(grammar.ok()) << text << ": " << grammar.error();
      for (int i = 0; i < replies; ++i) {
        const ReplyConstraint constraint({.body = ReplyRules::Body::kGrammar, .grammar = grammar.value()},
                                         vocabulary.masks);
        const std::string reply = random_reply(constraint, vocabulary, random, check);
        const Result<PythonJson> value = parse_python_json(reply);
        ASSERT_TRUE(value.ok()) << text << ": " << reply << ": " << value.error();
        EXPECT_TRUE(is_valid(value.value(), schema, schema)) << text << ": " << reply;
      }
    }
  }
}

TEST(JsonSchema, RepliesWithRandomVocabularyAreValid) {
  expect_valid_replies(random_vocabulary(1), 6, true);
  expect_valid_replies(random_vocabulary(2), 6, false);
}

TEST(JsonSchema, RepliesWithBundledVocabularyAreValid) {
  expect_valid_replies(bundled_vocabulary(), 4, false);
}

TEST(JsonSchema, TextsThatFitAndTextsThatDoNot) {
  struct Case {
    std::string schema;
    std::vector<std::string> good, bad;
  };
  const std::vector<Case> cases = {
      {R"({"type": "string"})",
       {R"("a\u00e9\/\ud83d\ude00")", "\"\u00e9\""},
       {R"("\ud83d")", R"("\ude00")", "\"\t\"", "\"\xC3\"", "\"\xED\xA0\x80\"", "\"\xC0\x80\"",
        R"("｜DSML｜")", " \"a\"", "a"}},
      {R"({"type": "integer"})",
       {"0", "-12", "12345678901234567890"},
       {"01", "1.0", "+1", "123456789012345678901", "-"}},
      {R"({"type": "number"})",
       {"0.5", "-1e10", "1E-7", "1.7976931348623157e+308"},
       {".5", "1.", "1e", "1e9999", "NaN"}},
      {R"({"type": "number", "minimum": 0.25, "maximum": 10})",
       {"0.25", "0.250", "10", "10.0", "9.999"},
       {"0.2499", "10.001", "-1", "1e1"}},
      {R"({"type": "integer", "minimum": 1.5, "exclusiveMaximum": 100})",
       {"2", "99"},
       {"1", "100", "0", "-5"}},
      {R"({"type": "object"})",
       {"{}", "{ }", "{\n}", "{\"a\":1}", "{\n    \"a\": [\n        1,\n        2\n    ]\n}"},
       {"{  }", "{\"a\" : 1}", "{\"a\":  1}", "{\"a\": 1,}", "{,}"}},
      {R"({"properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["b"]})",
       {R"({"b": null})", R"({"a": null, "b": null})"},
       {"{}", R"({"a": null})", R"({"b": null, "a": null})", R"({"b": null, "c": 1})"}},
      {R"({"type": "integer", "multipleOf": 7})", {"0", "7", "-14", "7000"}, {"1", "8", "7.0", "70001"}},
      {R"({"type": "number", "multipleOf": 0.25, "minimum": 1})",
       {"1", "1.25", "1.5", "1.50", "20.75"},
       {"0.75", "1.1", "1.255", "1e2"}},
      {R"({"multipleOf": 1000, "type": "integer"})", {"0", "1000", "25000"}, {"1", "100", "1500"}},
      {R"({"multipleOf": 0.01, "maximum": 2})", {"0.01", "1.99", "2", "-3.5"}, {"2.01", "0.001"}},
      {R"({"enum": [3, 4, 6], "multipleOf": 2})", {"4", "6"}, {"3"}},
      {R"({"type": "string", "format": "ipv4"})",
       {R"("0.0.0.0")", R"("192.168.1.255")"},
       {R"("256.1.1.1")", R"("1.2.3")"}},
      {R"({"type": "string", "format": "ipv6"})",
       {R"("::")", R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")"},
       {R"("1:2")", R"(":::")", R"("1::2::3")", R"("g::")"}},
      {R"({"type": "string", "format": "email"})",
       {R"("a.b@x.org")"},
       {R"("a@")", R"("@x")", R"("a..b@x")", R"("a b@x")"}},
      {R"({"type": "string", "format": "hostname"})",
       {R"("a-b.example")"},
       {R"("-a")", R"("a..b")", R"("a_b")"}},
      {R"({"type": "string", "format": "duration"})",
       {R"("P1Y2M3D")", R"("PT5M")", R"("P2W")", R"("P1DT2H")"},
       {R"("P")", R"("PT")", R"("P1DT")", R"("1D")"}},
      {R"({"type": "string", "format": "uri"})",
       {R"("https://u@a.org:80/x/y?q=1#f")", R"("mailto:a@b")", R"("file:///etc")", R"("urn:a:b%20c")"},
       {R"("a.org")", R"("http://a b")", R"("x:%2")", R"("1x:a")"}},
      {R"({"type": "string", "pattern": "^\\p{Lu}\\p{L}+$"})",
       {R"("Éa")", R"("Жук")"},
       {R"("éa")", R"("A1")", R"("A")"}},
      {R"({"type": "string", "pattern": "\\bfox\\b"})",
       {R"("a fox!")", R"("fox")"},
       {R"("foxes")", R"("a_fox")"}},
      {R"({"type": "string", "pattern": "^a\\Bb$"})", {R"("ab")"}, {R"("a b")"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}}, "required": ["ab", "c"],
           "propertyNames": {"pattern": "^[a-c]+$"}, "additionalProperties": {"type": "integer"}})",
       {R"({"ab": null, "c": 1})", R"({"ab": null, "c": 1, "bb": 2})"},
       {R"({"ab": null})", R"({"ab": null, "c": 1, "d": 2})"}},
      {R"({"type": "object", "required": ["z"]})", {R"({"z": [1]})"}, {"{}"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {R"({"a": 1, "abc": 2})", R"({"ab": null, "x": 1})"},
       {R"({"ab": 1})", R"({"\u0061b": 1})"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")"}},
      {R"({"type": "string", "format": "date-time"})",
       {R"("2024-02-28T23:59:59Z")", R"("2024-01-01T00:00:00.123+02:00")"},
       {R"("2024-01-01")", R"("2024-01-01T24:00:00Z")"}},
      {R"({"type": "string", "format": "time"})", {R"("08:30:00Z")"}, {R"("8:30")"}},
      {R"({"type": "string", "format": "uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567")"}},
      {R"({"type": "string", "format": "something"})", {R"("x")"}, {}},
      {R"({"type": "array", "prefixItems": [true, true]})", {"[]", "[1]", "[1, 2]"}, {"[1, 2, 3]"}},
      {R"({"type": "array", "items": [{"type": "null"}], "additionalItems": {"type": "boolean"}})",
       {"[null, true]"},
       {"[true]"}},
      {R"({"items": {"const": 1}, "minItems": 3, "maxItems": 3})",
       {"[1, 1, 1]", "[1,1,1]"},
       {"[1, 1]", "[1, 1, 1, 1]"}},
      {R"({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 7}}})", {"7"}, {"8"}},
      {R"({"anyOf": [{"type": "string"}, {"const": 1}], "title": "t", "x-order": 3})", {"1", "\"s\""}, {"2"}},
  };
  for (const Case& one : cases) {
    const Result<Grammar> grammar = json_schema_grammar(json(one.schema));
    ASSERT_TRUE(grammar.ok()) << one.schema << ": " << grammar.error();
    for (const std::string& text : one.good)
      EXPECT_TRUE(accepts_text(grammar.value(), text)) << one.schema << text;
    for (const std::string& text : one.bad)
      EXPECT_FALSE(accepts_text(grammar.value(), text)) << one.schema << text;
  }
}

TEST(JsonSchema, NestingIsBounded) {
  const Grammar object = json_object_grammar();
  const auto nested = [](std::size_t depth) {
    return "{\"a\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(accepts_text(object, nested(60)));
  EXPECT_FALSE(accepts_beginning(object, nested(70).substr(0, 75)));
}

TEST(JsonSchema, WhatCannotBeKeptIsRefusedByName) {
  struct Case {
    std::string schema, sentence;
  };
  const std::vector<Case> cases = {
      {R"(3)", "schema: expected a schema (an object or a boolean), found a number"},
      {R"({"type": "strin"})", "schema.type: expected the name of a type, found \"strin\""},
      {R"({"properties": {"a": {"items": {"type": 5}}}})",
       "schema.properties.a.items.type: expected the name of a type, or a list of such names"},
      {R"({"not": {"type": "null"}})",
       "schema: not is not supported; leave it out and check the reply instead"},
      {R"({"properties": {"p": {"type": "array", "uniqueItems": true}}})",
       "schema.properties.p: uniqueItems is not supported; leave it out and check the reply instead"},
      {R"({"properties": []})", "schema.properties: expected an object, found an array"},
      {R"({"required": [1]})", "schema.required: expected an array of names, found a number in it"},
      {R"({"$ref": "#/$defs/x"})", "schema.$ref: the schema has nothing at \"#/$defs/x\""},
      {R"({"$ref": "other.json"})",
       "schema.$ref: expected a reference within the schema, such as \"#/$defs/name\""},
      {R"json({"type": "string", "pattern": "a(?>b)"})json",
       "schema.pattern: character 3 of the pattern: a group of a kind or with flags that are not supported"},
      {R"({"type": "string", "minLength": -1})",
       "schema.minLength: expected a whole number from 0 to 999999999, found -1"},
      {R"({"anyOf": []})", "schema.anyOf: expected an array of schemas"},
      {R"({"enum": []})", "schema: no finite value fits it"},
      {R"({"$ref": "#"})", "schema: a $ref leads back to itself without anything in between"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "schema: no finite value fits it"},
      {R"({"allOf": [{"type": "number", "multipleOf": 2}, {"multipleOf": 3}]})",
       "schema.allOf[1]: two values of multipleOf that cannot be merged into one"},
      {R"({"type": "integer", "minimum": "1"})",
       "schema.minimum: expected a number of at most 20 digits, and 24 after the point; found \"1\""},
  };
  for (const Case& one : cases) {
    const Result<Grammar> grammar = json_schema_grammar(json(one.schema));
    ASSERT_FALSE(grammar.ok()) << one.schema;
    EXPECT_EQ(grammar.error(), one.sentence);
  }
}

TEST(JsonSchema, BombsAreRefusedOrHandled) {
  std::string deep = R"({"type": "null"})", chain = "{", all = R"({"type": "integer"})",
              many = R"({"enum": [)";
  for (int i = 0; i < 400; ++i) deep = R"({"type": "array", "items": )" + deep + "}";
  EXPECT_FALSE(json_schema_grammar(json(deep)).ok());
  // Every definition refers twice to the next: 2^60 readings if copied, 60 rules if not.
  for (int i = 0; i < 60; ++i) {
    chain += fmt::format(
        R"("d{}": {{"type": "array", "prefixItems": [{{"$ref": "#/$defs/d{}"}}, {{"$ref": "#/$defs/d{}"}}]}}, )",
        i, i + 1, i + 1);
  }
  EXPECT_TRUE(json_schema_grammar(
                  json(R"({"$ref": "#/$defs/d0", "$defs": )" + chain + R"("d60": {"type": "null"}}})"))
                  .ok());
  std::string doubled = "{";
  for (int i = 0; i < 60; ++i) {
    doubled += fmt::format(R"("d{}": {{"allOf": [{{"$ref": "#/$defs/d{}"}}, {{"$ref": "#/$defs/d{}"}}]}}, )",
                           i, i + 1, i + 1);
  }
  EXPECT_FALSE(json_schema_grammar(
                   json(R"({"$ref": "#/$defs/d0", "$defs": )" + doubled + R"("d60": {"type": "null"}}})"))
                   .ok());
  std::string unions = R"({"allOf": [)";
  for (int i = 0; i < 40; ++i)
    unions += fmt::format(
        R"({{"anyOf": [{{"properties": {{"a{}": {{}}}}}}, {{"properties": {{"b{}": {{}}}}}}]}},)", i, i);
  EXPECT_FALSE(json_schema_grammar(json(unions + R"({"type": "object"}]})")).ok());
  for (int i = 0; i < 300'000; ++i) many += fmt::format("\"{}\",", i);
  EXPECT_FALSE(json_schema_grammar(json(many + "0]}")).ok());
  for (const char* pattern : {"^(a*)*b$", "(x+x+)+y", "^((((a{0,99}){0,99}){0,99}){0,99})$",
                              "(a|b)*a(a|b){40}", "^(.*a){30}$", "^.{0,10000}$"}) {
    const PythonJson schema = PythonJson::Object{{"type", "string"}, {"pattern", pattern}};
    static_cast<void>(json_schema_grammar(schema));  // either way, but soon
  }
  EXPECT_TRUE(
      json_schema_grammar(json(R"({"type": "string", "minLength": 100000, "maxLength": 900000000})")).ok());
}

}  // namespace
}  // namespace baleen
