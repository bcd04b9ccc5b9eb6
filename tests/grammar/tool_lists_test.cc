// Lists of tools of the shapes that public servers declare, and tools whose schemas cannot be held beside
// good ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "chat/format.h"
#include "chat/parse.h"
#include "tests/grammar/instances.h"
#include "tests/grammar/walks.h"

namespace baleen {
namespace {

/// Each is held whole.
std::vector<ToolGrammar> usual_tools() {
  return {
      // A crawler's, written by zod.
      {"crawl",
       json(R"json({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
          "url": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
          "domains": {"type": "array", "maxItems": 3, "items": {"type": "string", "minLength": 1,
            "maxLength": 253,
            "pattern": "^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$"}},
          "prompt": {"type": "string", "minLength": 1, "maxLength": 65536},
          "headers": {"type": "object", "propertyNames": {"type": "string"},
            "additionalProperties": {"type": "string"}},
          "limits": {"type": "object", "propertyNames": {"type": "string", "enum": ["pages", "depth"]},
            "additionalProperties": {"type": "integer", "exclusiveMinimum": 0, "maximum": 100},
            "required": ["pages"]},
          "wait": {"type": "number", "minimum": 0, "default": 1}}, "required": ["url"],
            "additionalProperties": false})json")},
      // A notebook's, with definitions that refer to each other.
      {"append_block", json(R"json({"$defs": {
          "id": {"type": "string", "format": "uuid"},
          "text": {"type": "object", "properties": {"kind": {"const": "text"}, "text": {"type": "string",
            "maxLength": 2000},
            "link": {"anyOf": [{"type": "object", "properties": {"url": {"type": "string"}},
            "required": ["url"]}, {"type": "null"}]}},
            "required": ["kind", "text"], "additionalProperties": false},
          "list": {"type": "object", "properties": {"kind": {"const": "list"}, "items": {"type": "array",
            "items": {"$ref": "#/$defs/block"}, "maxItems": 2}}, "required": ["kind", "items"],
            "additionalProperties": false},
          "block": {"oneOf": [{"$ref": "#/$defs/text"}, {"$ref": "#/$defs/list"}]}},
          "type": "object", "properties": {"page": {"$ref": "#/$defs/id"}, "after": {"$ref": "#/$defs/id",
            "description": "d"},
          "blocks": {"type": "array", "items": {"$ref": "#/$defs/block"}, "minItems": 1, "maxItems": 2}},
          "required": ["page", "blocks"]})json")},
      // A whole schema that is a reference, a union, both, a union beside properties.
      {"by_reference", json(R"json({"$ref": "#/definitions/Args", "definitions": {"Args": {"type": "object",
          "properties": {"n": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 500}},
            "required": ["n"]}}})json")},
      {"one_or_other", json(R"json({"type": "object", "anyOf": [
          {"properties": {"path": {"type": "string", "maxLength": 30}}, "required": ["path"],
            "additionalProperties": false},
          {"properties": {"id": {"type": "integer"}, "deep": {"type": "boolean"}}, "required": ["id",
            "deep"]}]})json")},
      {"either_required",
       json(
           R"json({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string",
            "enum": ["x", "y"]}},
          "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "additionalProperties": false})json")},
      {"nullable_union", json(R"json({"oneOf": [{"type": "null"}, {"allOf": [{"$ref": "#/$defs/base"},
          {"properties": {"more": {"type": "boolean"}}, "required": ["more"]}]}],
          "$defs": {"base": {"type": "object", "properties": {"name": {"type": "string",
            "pattern": "^\\S+$", "maxLength": 9}},
          "required": ["name"]}}})json")},
      // Names by pattern, what is excluded, at least one of several.
      {"set_labels",
       json(R"json({"type": "object", "properties": {"labels": {"type": "object", "patternProperties":
          {"^x-": {"type": "integer"}, "^[a-z]+$": {"type": "string", "maxLength": 4}},
            "additionalProperties": false, "maxProperties": 3},
          "name": {"type": "string", "pattern": "^[a-z]{1,9}$", "not": {"enum": ["root", "admin"]}},
          "change": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "minProperties": 1}},
          "required": ["labels", "name", "change"]})json")},
      {"mail", json(R"json({"type": "object", "properties": {"to": {"type": "string", "format": "email",
          "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-])json"
                    R"json(@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"},
          "user": {"type": "string", "pattern": "^(?!-)[a-z0-9-]{1,39}(?<!-)$"}}, "required": ["to",
            "user"]})json")},
      {"none", json(R"json({"type": "object", "properties": {}})json")},
      {"upper", json(
                    R"json({"type": "OBJECT", "properties": {"a": {"type": "STRING", "enum": ["x"]}},
            "required": ["a"]})json")},
  };
}

/// Random blocks of calls, every one valid by its tool's schema.
void expect_valid_calls(const std::vector<ToolGrammar>& tools, const Grammar& grammar, int replies) {
  std::mt19937 random(8);
  for (int i = 0; i < replies; ++i) {
    const ReplyConstraint constraint({.body = ReplyRules::Body::kToolCalls, .grammar = grammar},
                                     bundled_vocabulary().masks);
    const std::string reply = random_reply(constraint, bundled_vocabulary(), random, false);
    const Result<Message> message =
        parse_completion(reply + std::string(chat_format::kEos), ThinkingMode::kChat);
    ASSERT_TRUE(message.ok()) << reply << message.error();
    for (const ToolCall& call : message.value().tool_calls) {
      const auto tool = std::ranges::find(tools, call.name, &ToolGrammar::name);
      ASSERT_NE(tool, tools.end()) << call.name;
      PythonJson schema = tool->parameters;
      if (tool->name == "upper") continue;  // not a schema to a validator
      EXPECT_TRUE(is_valid(json(call.arguments), schema, schema)) << call.name << call.arguments;
    }
  }
}

TEST(ToolLists, UsualOnesAreHeldWhole) {
  for (const ToolGrammar& tool : usual_tools()) {
    const Result<Grammar> alone = tool_calls_grammar({&tool, 1}, false);
    ASSERT_TRUE(alone.ok()) << alone.error();
    expect_valid_calls({tool}, alone.value(), 12);
  }
  std::vector<Unheld> unheld;
  const std::vector<ToolGrammar> tools = usual_tools();
  const Result<Grammar> all = tool_calls_grammar(tools, true, &unheld);
  ASSERT_TRUE(all.ok()) << all.error();
  EXPECT_TRUE(unheld.empty()) << unheld[0].sentence;
  expect_valid_calls(tools, all.value(), 30);
}

/// A tool as broken or as hard as public ones are: its parameters' schema, the keyword that is not held,
/// and parameters that must come through.
struct Odd {
  std::string parameters, keyword, call;
};

std::string parameter(const std::string& name, const std::string& value, bool is_string) {
  return "<｜DSML｜parameter name=\"" + name + "\" string=\"" + (is_string ? "true" : "false") + "\">" +
         value + "</｜DSML｜parameter>";
}

const std::vector<Odd>& odd_tools() {
  static const std::vector<Odd> odd = {
      {R"({"type": "object", "properties": {"v": {"type": "array", "items": {"type": "string"},
            "uniqueItems": true}}})",
       "uniqueItems", parameter("v", R"(["a", "a"])", false)},
      {R"({"type": "object", "properties": {"v": {"not": {"type": "integer"}}}})", "not",
       parameter("v", "1", false)},
      {R"({"type": "object", "properties": {"v": {"type": "any"}}})", "type", parameter("v", "[1]", false)},
      {R"({"type": "object", "properties": {"v": {"type": "unknown"}}})", "type", parameter("v", "a", true)},
      {R"({"type": "object", "properties": {"v": {"required": true, "description": "d"}}})", "required",
       parameter("v", "{}", false)},
      {R"({"type": "object", "properties": {"v": {"type": "string"}}, "required": null})", "required",
       parameter("v", "a", true)},
      {R"({"type": "object", "properties": {"v": null}})", "schema", parameter("v", "a", true)},
      {R"({"type": "object", "properties": []})", "properties", parameter("v", "a", true)},
      {R"({"type": "object", "properties": {"v": {"type": "object", "additionalProperties": "object"}}})",
       "schema", parameter("v", R"({"a": 1})", false)},
      {R"({"type": "object", "properties": {"v": {"$ref": "#/$defs/Gone"}}})", "$ref",
       parameter("v", "a", true)},
      {R"({"type": "object", "properties": {"v": {"$ref": "https://x.org/s.json"}}})", "$ref",
       parameter("v", "3", false)},
      {R"({"type": "object", "properties": {"v": {"type": "string", "pattern": "[a-"}}})", "pattern",
       parameter("v", "?", true)},
      {R"json({"type": "object", "properties": {"v": {"type": "string", "pattern": "^(a)\\1$"}}})json",
       "pattern", parameter("v", "?", true)},
      {R"({"type": "object", "properties": {"v": {"enum": "a"}}})", "enum", parameter("v", "b", true)},
      {R"({"type": "object", "properties": {"v": {"type": "string", "maxLength": "9"}}})", "maxLength",
       parameter("v", "b", true)},
      {R"({"type": "object", "properties": {"v": {"type": "integer", "minimum": "9"}}})", "minimum",
       parameter("v", "3", false)},
      {R"({"type": "object", "properties": {"v": {"anyOf": []}}})", "anyOf", parameter("v", "3", false)},
      {R"({"type": "object", "properties": {"v": {"type": "array", "contains": {"type": "string"}}}})",
       "contains", parameter("v", "[]", false)},
      {R"({"type": "object", "properties": {"v": {"type": "integer"}}, "if": {"required": ["v"]},
            "then": {}})",
       "if", parameter("v", "3", false)},
      {R"({"type": "object", "properties": {"v": {"type": "integer"}}, "dependentRequired": {"v": ["w"]}})",
       "dependentRequired", parameter("v", "3", false)},
      {R"({"type": "object", "properties": {"v": {"type": "number", "multipleOf": 0}}})", "multipleOf",
       parameter("v", "3", false)},
      {R"({"type": "object", "properties": {"v": {"type": "string", "enum": []}}, "required": ["v"]})",
       "schema", parameter("v", "a", true)},
      {R"({"type": "object", "properties": {"v": {"$ref": "#/properties/v"}}})", "schema",
       parameter("v", "a", true)},
      {R"({"type": "string"})", "schema", parameter("v", "a", true)},
  };
  return odd;
}

std::string call(const std::string& name, const std::string& parameters) {
  return "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"" + name + "\">\n" + parameters +
         "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
}

TEST(ToolLists, AnOddToolIsReadTolerantlyAndTheOthersAreHeld) {
  const ToolGrammar plain = {
      "plain", json(R"({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}},
      "required": ["a"], "additionalProperties": false})")};
  for (const Odd& odd : odd_tools()) {
    std::vector<Unheld> unheld;
    const std::vector<ToolGrammar> tools = {plain, {"odd", json(odd.parameters)}};
    const Result<Grammar> grammar = tool_calls_grammar(tools, false, &unheld);
    ASSERT_TRUE(grammar.ok()) << odd.parameters << grammar.error();
    ASSERT_FALSE(unheld.empty()) << odd.parameters;
    EXPECT_EQ(unheld[0].tool, "odd");
    EXPECT_EQ(unheld[0].keyword, odd.keyword) << unheld[0].sentence;
    EXPECT_TRUE(accepts_text(grammar.value(), call("odd", odd.call))) << odd.parameters;
    EXPECT_TRUE(accepts_text(grammar.value(), call("plain", parameter("a", "x", true))));
    EXPECT_FALSE(accepts_text(grammar.value(), call("plain", parameter("a", "y", true))));
    EXPECT_FALSE(accepts_text(grammar.value(), call("plain", "")));
    EXPECT_FALSE(accepts_text(grammar.value(), call("other", "")));
    // A strict tool is refused instead, with its name.
    std::vector<Unheld> none;
    const std::vector<ToolGrammar> strict = {plain, {"odd", json(odd.parameters), true}};
    const Result<Grammar> refused = tool_calls_grammar(strict, false, &none);
    ASSERT_FALSE(refused.ok()) << odd.parameters;
    EXPECT_TRUE(none.empty());
  }
}

TEST(ToolLists, WhatElseAnOddToolSaysIsHeld) {
  std::vector<Unheld> unheld;
  const std::vector<ToolGrammar> tools = {
      {"odd", json(
                  R"({"type": "object", "properties": {"v": {"type": "array", "items": {"type": "integer"},
            "uniqueItems": true},
          "w": {"type": "string", "enum": ["a"]}}, "required": ["w"], "additionalProperties": false})")}};
  const Grammar grammar = tool_calls_grammar(tools, false, &unheld).value();
  const std::string w = parameter("w", "a", true);
  EXPECT_TRUE(accepts_text(grammar, call("odd", parameter("v", "[1, 1]", false) + "\n" + w)));
  EXPECT_FALSE(accepts_text(grammar, call("odd", parameter("v", "[\"a\"]", false) + "\n" + w)));
  EXPECT_FALSE(accepts_text(grammar, call("odd", parameter("v", "[1]", false))));
  EXPECT_FALSE(accepts_text(grammar, call("odd", w + "\n" + parameter("x", "1", false))));
  ASSERT_EQ(unheld.size(), 1U);
  EXPECT_EQ(
      unheld[0].sentence,
      "tool \"odd\".properties.v: uniqueItems is not supported; leave it out and check the reply instead");
}

TEST(ToolLists, StrictPatternsMayNotLookAround) {
  const PythonJson parameters = json(
      R"json({"type": "object", "properties": {"v": {"type": "string",
            "pattern": "^(?!aws:).{1,128}$"}}})json");
  std::vector<Unheld> unheld;
  const std::vector<ToolGrammar> loose = {{"f", parameters}}, strict = {{"f", parameters, true}};
  const Grammar grammar = tool_calls_grammar(loose, false, &unheld).value();
  EXPECT_TRUE(unheld.empty());
  EXPECT_FALSE(accepts_text(grammar, call("f", parameter("v", "aws:x", true))));
  EXPECT_TRUE(accepts_text(grammar, call("f", parameter("v", "aws-x", true))));
  EXPECT_EQ(tool_calls_grammar(strict, false, &unheld).error(),
            "tool \"f\".properties.v.pattern: the pattern looks ahead or behind, which strict schemas may "
            "not; without "
            "strict it is held, too");
}

TEST(ToolLists, ATooLargeToolIsFreeAndTheOthersAreHeld) {
  std::string many = R"({"type": "object", "properties": {"v": {"enum": [)";
  for (int i = 0; i < 100'000; ++i) many += fmt::format("\"{:05} {:05}\",", i, 99'999 - i);
  std::vector<Unheld> unheld;
  const std::vector<ToolGrammar> tools = {
      {"before", json(R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})")},
      {"large", json(many + "0]}}}")},
      {"after", json(R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})")}};
  const Grammar grammar = tool_calls_grammar(tools, false, &unheld).value();
  ASSERT_EQ(unheld.size(), 1U);
  EXPECT_EQ(unheld[0].sentence, "tool \"large\": too large for a grammar beside the other tools");
  EXPECT_TRUE(accepts_text(grammar, call("large", parameter("v", "a", true))));
  for (const char* name : {"before", "after"}) {
    EXPECT_TRUE(accepts_text(grammar, call(name, parameter("a", "1", false))));
    EXPECT_FALSE(accepts_text(grammar, call(name, "")));
  }
}

TEST(ToolLists, MoreParametersThanASetHas) {
  std::string parameters = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 80; ++i) parameters += fmt::format("\"p{}\": {{\"type\": \"integer\"}},", i);
  std::vector<Unheld> unheld;
  const std::vector<ToolGrammar> tools = {
      {"f", json(parameters + R"("last": {"type": "boolean"}}, "required": ["last"]})")}};
  const Grammar grammar = tool_calls_grammar(tools, false, &unheld).value();
  const std::string last = parameter("last", "true", false);
  EXPECT_TRUE(accepts_text(grammar, call("f", parameter("p79", "1", false) + "\n" + last)));
  EXPECT_FALSE(accepts_text(grammar, call("f", parameter("p79", "1", false))));
  EXPECT_FALSE(accepts_text(grammar, call("f", parameter("p79", "true", false) + "\n" + last)));
  ASSERT_EQ(unheld.size(), 1U);
  EXPECT_EQ(unheld[0].sentence, "tool \"f\": 81 parameters; at most 64 are distinguished");
}

}  // namespace
}  // namespace baleen
