// Tool-call blocks in DSML. (source: chat/format.h; docs/chat.md)
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "chat/format.h"
#include "grammar/compiled_grammar.h"
#include "grammar/schema_compiler.h"

namespace baleen {
namespace {

constexpr std::string_view kBlockOpening = "\n\n<｜DSML｜tool_calls>\n";
constexpr std::string_view kInvokeOpening = "<｜DSML｜invoke name=\"";
constexpr std::string_view kParameterOpening = "<｜DSML｜parameter name=\"";
constexpr std::string_view kInvokeClosing = "</｜DSML｜invoke>\n";
/// One bit each in a set.
constexpr std::size_t kMaxParameters = 64;

/// Names stand in tags as they are; a quote would end them.
bool can_be_written(std::string_view name) {
  return !name.empty() && name.find(chat_format::kDsml) == std::string_view::npos &&
         std::ranges::none_of(name, [](char c) { return c == '"' || static_cast<unsigned char>(c) < 0x20; });
}

class BlockCompiler {
 public:
  BlockCompiler(GraphBuilder& builder, const BuiltinRules& rules) : builder_(builder), rules_(rules) {}

  NodeId block(std::span<const ToolGrammar> tools, bool parallel) {
    const NodeId invokes = builder_.later();
    const NodeId closing = builder_.literal(chat_format::kCallsEnd, builder_.end_of_rule());
    const NodeId after_invoke = parallel ? builder_.split({invokes, closing}) : closing;
    const NodeId invoke_closing = builder_.literal(kInvokeClosing, after_invoke);
    std::deque<std::string> headers;
    std::vector<std::pair<std::string_view, NodeId>> branches;
    for (const ToolGrammar& tool : tools) {
      if (failure_) break;
      headers.push_back(tool.name + "\">\n");
      branches.emplace_back(headers.back(), arguments(tool, invoke_closing));
    }
    builder_.set_later(invokes, builder_.literal(kInvokeOpening, builder_.literals(std::move(branches))));
    return builder_.literal(kBlockOpening, invokes);
  }

  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }

 private:
  /// The lines between an invoke's tags: its parameters in any order, or an empty line when there are none.
  NodeId arguments(const ToolGrammar& tool, NodeId closing) {
    static const PythonJson kAnything{true};
    SchemaCompiler compiler(builder_, rules_, tool.parameters);
    const std::string path = fmt::format("tool {}", quote_python_json(tool.name));
    std::optional<ObjectShape> shape = ObjectShape{.additional = &kAnything};
    if (!SchemaCompiler::is_anything(tool.parameters)) shape = shape_of(compiler, tool.parameters, path);
    if (!shape) {
      note(compiler.failure());
      return closing;
    }
    const NodeId none = builder_.byte('\n', closing);
    if (shape->properties.empty() && shape->additional == nullptr) return none;

    const NodeId set = builder_.set();
    std::uint64_t required = 0;
    for (std::size_t i = 0; i < shape->properties.size(); ++i)
      required |= std::uint64_t{shape->properties[i].required} << i;
    // The picker needs the options, which end at `next`, which needs the picker: set last.
    const NodeId next = builder_.set_next(set, kNoNode, kNoNode, required, closing);
    std::vector<NodeId> options;
    for (std::size_t i = 0; i < shape->properties.size(); ++i) {
      const ObjectShape::Property& property = shape->properties[i];
      const NodeId end = builder_.set_add(set, std::uint64_t{1} << i, next);
      options.push_back(
          builder_.literal(property.name, value_of(compiler, *property.schema, property.path, end)));
    }
    const NodeId free_option =
        shape->additional == nullptr ? kNoNode : free_parameter(compiler, *shape, path, next);
    note(compiler.failure());
    const NodeId picker = builder_.set_pick(set, options, free_option);
    const NodeId prefix = builder_.literal(kParameterOpening, picker);
    builder_.change_set_next(next, prefix, picker);
    builder_.set_begin(set, prefix);
    return required == 0 ? builder_.split({none, set}) : set;
  }

  std::optional<ObjectShape> shape_of(SchemaCompiler& compiler, const PythonJson& parameters,
                                      const std::string& path) {
    std::optional<ObjectShape> shape = compiler.object_shape(parameters, path);
    if (!shape) return std::nullopt;
    if (shape->properties.size() > kMaxParameters) {
      note(baleen::failure("{}: {} parameters; at most {} are supported", path, shape->properties.size(),
                           kMaxParameters));
      return std::nullopt;
    }
    for (const ObjectShape::Property& property : shape->properties) {
      if (can_be_written(property.name)) continue;
      note(baleen::failure("{}: expected a name without quotes, control characters and {}", property.path,
                           chat_format::kDsml));
      return std::nullopt;
    }
    return shape;
  }

  /// After a parameter's name: whether it is raw or JSON, the value, the closing tag.
  NodeId value_of(SchemaCompiler& compiler, const PythonJson& schema, const std::string& path, NodeId next) {
    const NodeId raw = compiler.value(schema, path, ValueForm::kRawString, next);
    const NodeId json =
        compiler.value(schema, path, ValueForm::kNoString, builder_.literal(parameter_closing(), next));
    return builder_.literal("\" string=\"", builder_.split({builder_.literal("true\">", raw),
                                                            builder_.literal("false\">", json)}));
  }

  /// A parameter of a name that is not declared. That such a name comes twice cannot be seen here.
  NodeId free_parameter(SchemaCompiler& compiler, const ObjectShape& shape, const std::string& path,
                        NodeId next) {
    CharAutomaton name;  // not empty, and as can_be_written has it
    const std::vector<CharEdge> edges = {{{U' ', U'"' - 1}, 1}, {{U'"' + 1, kLastCharacter}, 1}};
    name.states = {{.accepts = false, .edges = edges}, {.accepts = true, .edges = edges}};
    std::vector<std::u32string> declared;
    for (const ObjectShape::Property& property : shape.properties)
      declared.push_back(to_characters(property.name));
    std::optional<CharAutomaton> allowed = without_markup(name);
    if (allowed) allowed = except_words(*allowed, declared);
    if (!allowed) {
      note(baleen::failure("{}: the names of its parameters are too long", path));
      return next;
    }
    return write_text(builder_, *allowed, Writing::kRaw,
                      value_of(compiler, *shape.additional, path + ".additionalProperties", next));
  }

  void note(const std::optional<Failure>& failure) {
    if (!failure_) failure_ = failure;
  }

  GraphBuilder& builder_;
  const BuiltinRules& rules_;
  std::optional<Failure> failure_;
};

/// `schema`: null for no other reply than calls.
Result<Grammar> compile(std::span<const ToolGrammar> tools, bool parallel, const PythonJson* schema) {
  if (tools.empty()) return failure("tools: expected at least one function");
  std::map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    if (!can_be_written(tools[i].name)) {
      return failure("tools[{}]: its name is {}; expected one without quotes, control characters and {}", i,
                     quote_python_json(tools[i].name), chat_format::kDsml);
    }
    const auto [first, is_new] = seen.try_emplace(tools[i].name, i);
    if (!is_new)
      return failure("tools[{}]: named {} like tools[{}]", i, quote_python_json(tools[i].name),
                     first->second);
  }
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  BlockCompiler compiler(builder, rules);
  const NodeId calls = compiler.block(tools, parallel);
  if (compiler.failure()) return *compiler.failure();
  if (schema == nullptr) return finish_grammar(builder, calls, rules, "tools");
  SchemaCompiler json(builder, rules, *schema);
  const NodeId value = json.value(*schema, "schema", ValueForm::kJson, builder.end_of_rule());
  if (json.failure()) return *json.failure();
  return finish_grammar(builder, builder.split({value, calls}), rules, "schema and tools");
}

}  // namespace

Result<Grammar> tool_calls_grammar(std::span<const ToolGrammar> tools, bool parallel) {
  return compile(tools, parallel, nullptr);
}

Result<Grammar> json_or_tool_calls_grammar(const PythonJson& schema, std::span<const ToolGrammar> tools,
                                           bool parallel) {
  return compile(tools, parallel, &schema);
}

}  // namespace baleen
