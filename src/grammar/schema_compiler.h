/// JSON schemas to grammar nodes. Used by json_schema_grammar and, one parameter at a time, by
/// tool_calls_grammar.
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
#include "grammar/grammar.h"
#include "grammar/number_range.h"
#include "grammar/text_set.h"

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
  struct Names {
    TextSet texts;                       ///< `｜DSML｜` is not left out yet
    bool is_any = false;                 ///< every name
    const PythonJson* schema = nullptr;  ///< what their values are
    std::string path;
  };
  std::vector<Property> properties;
  std::vector<Names> others;  ///< that there may be besides, any number of times; disjoint
  bool needs_one = false;     ///< it may not be empty
  /// Any object at all.
  [[nodiscard]] bool is_free() const;
};

/// Shapes of one object: unions beside unions multiply.
inline constexpr std::size_t kMaxShapes = 64;

/// Compiles the schemas of one document: `#/...` references mean `root`. What cannot be kept is left out,
/// so that more is allowed than the schema says, and noted in `unheld`; where that is null, or the schema
/// is too large, that is a failure, after which nodes mean nothing and `failure()` has the sentence.
/// Schemas given must outlive the compiler.
class SchemaCompiler {
 public:
  /// `strict`: patterns may not look around.
  SchemaCompiler(GraphBuilder& builder, const BuiltinRules& rules, const PythonJson& root,
                 std::vector<Unheld>* unheld = nullptr, bool strict = false)
      : builder_(builder), rules_(rules), root_(root), unheld_(unheld), strict_(strict) {}

  /// A value of `schema`, then `next`. `path` is what sentences call the schema.
  NodeId value(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  /// The objects that `schema` allows, one for each alternative of its unions; references and allOf are
  /// resolved. Empty after a failure, and when it allows none.
  std::vector<ObjectShape> object_shapes(const PythonJson& schema, const std::string& path);
  /// `null` and `true` and {}: no constraint at all.
  [[nodiscard]] static bool is_anything(const PythonJson& schema);

  /// Goes on without what `keyword` asks: notes that, or fails where nothing may be left out.
  void leave_out(const std::string& path, std::string_view keyword, std::string_view what);

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
  /// A schema of what fits both.
  static PythonJson all_of(const PythonJson& a, const PythonJson& b);
  const PythonJson* keep(PythonJson value);
  const PythonJson* without(const PythonJson& schema, std::string_view name);

  NodeId anything(ValueForm form, NodeId next);
  NodeId alternatives(const PythonJson& schema, const PythonJson& branches, const std::string& path,
                      ValueForm form, NodeId next);
  NodeId reference(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  NodeId composite(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next);
  NodeId rule(std::string key, const PythonJson& schema, const std::string& path, ValueForm form,
              NodeId next);
  struct Siblings {
    std::vector<std::string> types;
    TextSet texts;
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
  void add_shapes(const PythonJson& schema, const std::string& path, int depth,
                  std::vector<ObjectShape>& shapes);
  ObjectShape shape_of(const PythonJson& flat, const std::string& path);
  void add_required(const PythonJson& flat, const std::string& path, ObjectShape& shape);
  std::vector<ObjectShape::Names> pattern_properties(const PythonJson& flat, const std::string& path,
                                                     ObjectShape& shape, bool& is_open);
  void add_other_names(const PythonJson& flat, const std::string& path, ObjectShape& shape);
  NodeId map_of(const PythonJson& schema, const ObjectShape& shape, const std::string& path, NodeId next);
  NodeId member_of(const ObjectShape::Names& names, NodeId next);
  NodeId member_value(const PythonJson& schema, const std::string& path, NodeId next);
  template <class Element>
  NodeId list(char open, char close, std::uint64_t least, std::uint64_t most, const Element& element,
              NodeId next);
  NodeId array(const PythonJson& schema, const std::string& path, NodeId next);
  [[nodiscard]] static bool has_number_rules(const PythonJson& schema);
  std::optional<CharAutomaton> number_rules(const PythonJson& schema, const std::string& path, bool integer);
  /// The strings that a schema without references and unions allows; all of them where `has_rules` stays
  /// false.
  TextSet string_rules(const PythonJson& schema, const std::string& path, bool& has_rules);
  bool restrict_to(std::string_view pattern, std::string_view keyword, const std::string& path,
                   TextSet& texts);
  /// The strings that any schema allows.
  TextSet strings_of(const PythonJson& schema, const std::string& path, int depth);
  [[nodiscard]] static bool is_of_strings(const PythonJson& schema);

  std::optional<std::uint64_t> size_keyword(const PythonJson& schema, std::string_view name,
                                            const std::string& path);
  NumberBounds bounds_of(const PythonJson& schema, const std::string& path);

  GraphBuilder& builder_;
  const BuiltinRules& rules_;
  const PythonJson& root_;
  std::vector<Unheld>* unheld_;
  bool strict_;
  std::optional<Failure> failure_;
  /// Keys are a $ref, or the text of a schema.
  std::map<std::pair<std::string, ValueForm>, NodeId> rules_of_;
  std::deque<PythonJson> merged_;  ///< schemas made here
  int steps_ = 0;                  ///< schemas visited, merges made
  int depth_ = 0;
};

}  // namespace baleen
