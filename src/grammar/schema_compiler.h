/// JSON schemas to grammar nodes. Used by json_schema_grammar and, one parameter at a time, by tool_calls_grammar.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/python_json.h"
#include "grammar/builtin_rules.h"
#include "grammar/number_range.h"

namespace baleen {

/// Schemas visited in one compilation, merges made: unions of unions and chains of allOf multiply.
inline constexpr int kMaxSchemaSteps = 20'000;

/// Which values of a schema, and how they are written.
enum class ValueForm : std::uint8_t {
  kJson,       ///< all, as JSON
  kRawString,  ///< strings alone, as raw text with a parameter's closing tag and newline
  kNoString,   ///< all but strings, as JSON
};

/// What an object may hold, for whoever lays it out.
struct ObjectShape {
  struct Property {
    std::string name;
    const PythonJson* schema = nullptr;
    std::string path;
    bool required = false;
  };
  std::vector<Property> properties;
  /// Of other properties; null: there may be none. `true` or a schema.
  const PythonJson* additional = nullptr;
};

/// Compiles the schemas of one document: `#/...` references mean `root`. After a failure nodes mean nothing and
/// `failure()` has the sentence. Schemas given must outlive the compiler.
class SchemaCompiler {
 public:
  SchemaCompiler(GraphBuilder& builder, const BuiltinRules& rules, const PythonJson& root)
      : builder_(builder), rules_(rules), root_(root) {}

  /// A value of `schema`, then `next`. `path` is what sentences call the schema.
  NodeId value(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  /// `schema` as an object; references and allOf are resolved. Nothing after a failure.
  std::optional<ObjectShape> object_shape(const PythonJson& schema, const std::string& path);
  /// `null` and `true` and {}: no constraint at all.
  [[nodiscard]] static bool is_anything(const PythonJson& schema);

  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }

 private:
  NodeId wrong(const std::string& path, std::string_view what);
  bool check_keywords(const PythonJson& schema, const std::string& path);
  std::vector<std::string> types_of(const PythonJson& schema, const std::string& path);

  const PythonJson* flatten(const PythonJson& schema, const std::string& path, int depth);
  const PythonJson* resolve(const PythonJson& reference, const std::string& path);
  const PythonJson* merged(const PythonJson& a, const PythonJson& b, const std::string& path);
  std::optional<PythonJson> merged_keyword(const std::string& name, const PythonJson& a, const PythonJson& b,
                                           const std::string& path);
  PythonJson merged_properties(const PythonJson& a, const PythonJson& b);
  const PythonJson* keep(PythonJson value);

  NodeId anything(ValueForm form, NodeId next);
  NodeId alternatives(const PythonJson& schema, const PythonJson& branches, const std::string& path,
                      ValueForm form, NodeId next);
  NodeId reference(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  NodeId composite(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  NodeId rule(std::string key, const PythonJson& schema, const std::string& path, ValueForm form,
              NodeId next);
  struct Siblings {
    std::vector<std::string> types;
    CharAutomaton text;
    std::uint64_t least = 0, most = 0;
    std::optional<CharAutomaton> number;
  };
  Siblings siblings_of(const PythonJson& schema, const std::string& path);
  bool fits(const PythonJson& candidate, const Siblings& siblings, const PythonJson& schema,
            const std::string& path);
  NodeId constants(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  NodeId of_type(const PythonJson& schema, const std::string& type, const std::string& path, ValueForm form,
                 NodeId next);
  NodeId string(const PythonJson& schema, const std::string& path, bool raw, NodeId next);
  NodeId number(const PythonJson& schema, const std::string& path, bool integer, NodeId next);
  NodeId object(const PythonJson& schema, const std::string& path, NodeId next);
  NodeId free_object(const PythonJson& schema, const ObjectShape& shape, const std::string& path,
                     NodeId next);
  NodeId member_value(const PythonJson& schema, const std::string& path, NodeId next);
  template <class Element>
  NodeId list(char open, char close, std::uint64_t least, std::uint64_t most, const Element& element,
              NodeId next);
  NodeId array(const PythonJson& schema, const std::string& path, NodeId next);
  std::optional<CharAutomaton> property_names(const PythonJson& schema, const std::string& path);
  [[nodiscard]] static bool has_number_rules(const PythonJson& schema);
  std::optional<CharAutomaton> number_rules(const PythonJson& schema, const std::string& path, bool integer);
  std::optional<CharAutomaton> string_rules(const PythonJson& schema, const std::string& path);

  std::optional<std::uint64_t> size_keyword(const PythonJson& schema, std::string_view name,
                                            const std::string& path);
  std::optional<NumberBounds> bounds_of(const PythonJson& schema, const std::string& path);

  GraphBuilder& builder_;
  const BuiltinRules& rules_;
  const PythonJson& root_;
  std::optional<Failure> failure_;
  std::map<std::pair<std::string, ValueForm>, NodeId> rules_of_;  ///< by $ref, or by the text of a schema
  std::deque<PythonJson> merged_;                                 ///< schemas made here
  int steps_ = 0;                                                 ///< schemas visited, merges made
  int depth_ = 0;
};

}  // namespace baleen
