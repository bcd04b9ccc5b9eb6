// Tools as prompts of V4.1 declare them: the namespace in the name, its description before the tool's.
#include "chat/tool_namespace.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

PythonJson json(std::string_view text) { return parse_python_json(text).value(); }

std::string name_of(std::string_view name, std::string_view name_space) {
  const PythonJson space = json(name_space);
  const Result<std::string> qualified = qualified_tool_name(name, &space);
  return qualified ? qualified.value() : "refused: " + qualified.error();
}

TEST(ToolNamespace, Names) {
  EXPECT_EQ(qualified_tool_name("f", nullptr).value(), "f");
  EXPECT_EQ(qualified_tool_name("a::f", nullptr).value(), "a::f");
  EXPECT_EQ(name_of("f", "null"), "f");
  EXPECT_EQ(name_of("f", R"("a")"), "a::f");
  EXPECT_EQ(name_of("a::f", R"("a")"), "a::f");
  EXPECT_EQ(name_of("f", R"({"name": "a", "description": "x"})"), "a::f");
  EXPECT_EQ(name_of("a::f", R"("b")"), R"(refused: "a::f" is of the namespace "a", not "b")");
  EXPECT_EQ(name_of("a::b::f", "null"),
            R"(refused: "b::f" holds ::, which stands between a namespace and a name, once)");
  EXPECT_EQ(name_of("f", R"("a::b")"),
            R"(refused: "a::b" holds ::, which stands between a namespace and a name, once)");
  EXPECT_EQ(name_of("f", "7"), "refused: expected a namespace's name, or an object with one, found a number");
  EXPECT_EQ(name_of("f", "{}"),
            "refused: expected a namespace's name, or an object with one, found an object");
}

TEST(ToolNamespace, Functions) {
  const struct {
    const char* function;
    const char* around;
    const char* declared;
  } kCases[] = {
      {R"({"parameters": {}, "name": "f"})", "null", R"({"parameters": {}, "name": "f"})"},
      {R"({"parameters": {}, "name": "f"})", R"("a")", R"({"parameters": {}, "name": "a::f"})"},
      {R"({"name": "f", "description": "d", "x": 1})", R"({"name": "a", "description": "Of a."})",
       R"({"name": "a::f", "description": "Of a.\nd", "x": 1})"},
      {R"({"name": "f", "x": 1})", R"({"name": "a", "description": "Of a."})",
       R"({"name": "a::f", "x": 1, "description": "Of a.\n"})"},
      {R"({"name": "f", "description": "d"})", R"({"name": "a", "description": ""})",
       R"({"name": "a::f", "description": "d"})"},
      {R"({"namespace": {"name": "b", "description": "Of b."}, "name": "f", "description": null})", "null",
       R"({"name": "b::f", "description": "Of b.\n"})"},
      {R"({"namespace": "b", "name": "f"})", R"("a")", R"({"name": "a::f"})"},
  };
  for (const auto& [function, around, declared] : kCases) {
    const PythonJson space = json(around);
    const Result<PythonJson> qualified = qualified_function(json(function), &space);
    EXPECT_EQ(qualified ? dump_python_json(qualified.value()) : qualified.error(), declared) << function;
  }
}

}  // namespace
}  // namespace baleen
