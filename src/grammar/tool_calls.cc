// Tool-call blocks in DSML. (source: chat/format.h; docs/chat.md)
#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "chat/format.h"
#include "grammar/compiled_grammar.h"
#include "grammar/schema_compiler.h"

namespace baleen {
namespace {

/// One bit each in a set.
constexpr std::size_t kMaxParameters = 64;

/// Names stand in tags as they are; a quote would end them.
bool can_be_written(std::string_view name) {
  return !name.empty() && name.find(chat_format::kDsml) == std::string_view::npos &&
         std::ranges::none_of(name, [](char c) { return c == '"' || static_cast<unsigned char>(c) < 0x20; });
}

class BlockCompiler {
 public:
  /// Of each tool in `free` any parameters are allowed.
  BlockCompiler(GraphBuilder& builder, const BuiltinRules& rules, const CallTags& tags,
                const std::vector<bool>& free, std::vector<Unheld>* unheld)
      : builder_(builder), rules_(rules), tags_(tags), free_(free), unheld_(unheld) {}

  NodeId block(std::span<const ToolGrammar> tools, bool parallel) {
    const NodeId invokes = builder_.later();
    const NodeId closing = builder_.literal(tags_.calls_end, builder_.end_of_rule());
    const NodeId after_invoke = parallel ? builder_.split({invokes, closing}) : closing;
    const NodeId invoke_closing = builder_.literal(tags_.invoke_closing, after_invoke);
    const NodeId anything = any_arguments(invoke_closing);
    std::deque<std::string> headers;
    std::vector<std::pair<std::string_view, NodeId>> branches;
    std::size_t reserved = kReservedNodes;
    for (const ToolGrammar& tool : tools) reserved += tool.name.size() + kReservedPerTool;
    builder_.set_limit(kMaxNodes - std::min(reserved, kMaxNodes / 2));
    for (std::size_t i = 0; i < tools.size() && !failure_; ++i) {
      headers.push_back(tools[i].name + "\">\n");
      begins_.push_back(free_[i] ? anything : arguments(tools[i], invoke_closing, anything));
      branches.emplace_back(headers.back(), begins_.back());
    }
    builder_.set_limit(kMaxNodes);
    builder_.set_later(invokes,
                       builder_.literal(tags_.invoke_opening, builder_.literals(std::move(branches))));
    return builder_.literal(tags_.calls_opening, invokes);
  }

  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  /// Where the parameters of each tool begin.
  [[nodiscard]] const std::vector<NodeId>& begins() const { return begins_; }

 private:
  /// Of the grammar around the tools, and of a name beside its bytes.
  static constexpr std::size_t kReservedNodes = 1000, kReservedPerTool = 4;

  static std::string path_of(const ToolGrammar& tool) {
    return fmt::format("tool {}", quote_python_json(tool.name));
  }

  NodeId any_arguments(NodeId closing) {
    static const PythonJson kAnything{true};
    SchemaCompiler compiler(builder_, rules_, kAnything);
    const ObjectShape::Names names = {.texts = texts_of_length(0, kUnbounded), .schema = &kAnything};
    return arguments_of(compiler, {.others = {names}}, "tools", closing);
  }

  /// What the schema of a tool says, or `anything` where that cannot be held at all.
  NodeId arguments(const ToolGrammar& tool, NodeId closing, NodeId anything) {
    if (SchemaCompiler::is_anything(tool.parameters)) return anything;
    const bool must_hold = tool.strict || unheld_ == nullptr;
    const std::string path = path_of(tool);
    const GraphBuilder::Mark mark = builder_.mark();
    std::vector<Unheld> left_out;
    SchemaCompiler compiler(builder_, rules_, tool.parameters, must_hold ? nullptr : &left_out, tool.strict);
    std::vector<NodeId> ways;
    const std::vector<ObjectShape> shapes = compiler.object_shapes(tool.parameters, path);
    for (const ObjectShape& shape : shapes)
      ways.push_back(shape.is_free() ? anything : arguments_of(compiler, shape, path, closing));
    std::optional<Failure> failure = compiler.failure();
    if (!failure && shapes.empty()) failure = baleen::failure("{}: expected the schema of an object", path);
    if (!failure && builder_.overflowed())
      failure = baleen::failure("{}: too large for a grammar beside the other tools", path);
    if (failure && must_hold) {
      failure_ = failure;
      return closing;
    }
    if (failure) {
      builder_.roll_back(mark);
      ways = {anything};
      left_out.assign(1, {.keyword = "schema", .sentence = failure->message});
    }
    for (Unheld& one : left_out) {
      one.tool = tool.name;
      unheld_->push_back(std::move(one));
    }
    return builder_.split(std::move(ways));
  }

  /// The lines between an invoke's tags: its parameters in any order, or an empty line when there are none.
  NodeId arguments_of(SchemaCompiler& compiler, const ObjectShape& shape, const std::string& path,
                      NodeId closing) {
    const NodeId none = builder_.byte('\n', closing);
    if (shape.properties.empty() && shape.others.empty()) return shape.needs_one ? builder_.dead() : none;

    // The first ones have a bit in the set, required ones before others.
    std::vector<const ObjectShape::Property*> properties;
    for (const bool required : {true, false}) {
      for (const ObjectShape::Property& property : shape.properties) {
        if (property.required != required) continue;
        if (can_be_written(property.name)) {
          properties.push_back(&property);
        } else {
          compiler.leave_out(
              property.path, "properties",
              fmt::format("expected a name without quotes, control characters and {}", chat_format::kDsml));
        }
      }
    }
    if (properties.size() > kMaxParameters) {
      compiler.leave_out(
          path, "properties",
          fmt::format("{} parameters; at most {} are distinguished", properties.size(), kMaxParameters));
    }
    const NodeId set = builder_.set();
    std::uint64_t required = 0;
    for (std::size_t i = 0; i < std::min(properties.size(), kMaxParameters); ++i)
      required |= std::uint64_t{properties[i]->required} << i;
    // The picker needs the options, which end at `next`, which needs the picker: set last.
    const NodeId next = builder_.set_next(set, kNoNode, kNoNode, required, closing);
    std::vector<NodeId> options, free_options;
    for (std::size_t i = 0; i < properties.size(); ++i) {
      const ObjectShape::Property& property = *properties[i];
      const NodeId end = i < kMaxParameters ? builder_.set_add(set, std::uint64_t{1} << i, next) : next;
      std::vector<NodeId>& kind = i < kMaxParameters ? options : free_options;
      kind.push_back(
          builder_.literal(property.name, value_of(compiler, *property.schema, property.path, end)));
    }
    for (const ObjectShape::Names& names : shape.others)
      free_options.push_back(free_parameter(compiler, names, next));
    const NodeId free_option = free_options.empty() ? kNoNode : builder_.split(std::move(free_options));
    const NodeId picker = builder_.set_pick(set, options, free_option);
    const NodeId prefix = builder_.literal(tags_.parameter_opening, picker);
    builder_.change_set_next(next, prefix, picker);
    builder_.set_begin(set, prefix);
    return required == 0 && !shape.needs_one ? builder_.split({none, set}) : set;
  }

  /// After a parameter's name: whether it is raw or JSON, the value, the closing tag.
  NodeId value_of(SchemaCompiler& compiler, const PythonJson& schema, const std::string& path, NodeId next) {
    const NodeId raw = compiler.value(schema, path, ValueForm::kRawString, next);
    const NodeId json =
        compiler.value(schema, path, ValueForm::kNoString, builder_.literal(rules_.parameter_closing, next));
    return builder_.literal("\" string=\"", builder_.split({builder_.literal("true\">", raw),
                                                            builder_.literal("false\">", json)}));
  }

  /// A parameter of a name that is not declared. That such a name comes twice cannot be seen here.
  NodeId free_parameter(SchemaCompiler& compiler, const ObjectShape::Names& names, NodeId next) {
    CharAutomaton name;  // not empty, and as can_be_written has it
    const std::vector<CharEdge> edges = {{{U' ', U'"' - 1}, 1}, {{U'"' + 1, kLastCharacter}, 1}};
    name.states = {{.accepts = false, .edges = edges}, {.accepts = true, .edges = edges}};
    const NodeId value = value_of(compiler, *names.schema, names.path, next);
    std::optional<TextSet> allowed = in_both(names.texts, {{.automaton = name}});
    if (allowed) allowed = without_markup(*allowed);
    std::optional<NodeId> begin;
    if (allowed) begin = write_texts(builder_, *allowed, Writing::kRaw, value);
    if (begin) return *begin;
    compiler.leave_out(names.path, "propertyNames",
                       "the names of its parameters are too long or too complex");
    return builder_.dead();
  }

  GraphBuilder& builder_;
  const BuiltinRules& rules_;
  const CallTags& tags_;
  const std::vector<bool>& free_;
  std::vector<Unheld>* unheld_;
  std::vector<NodeId> begins_;
  std::optional<Failure> failure_;
};

struct Wanted {
  std::span<const ToolGrammar> tools;
  const CallTags& tags;
  bool parallel = false;
  const PythonJson* schema = nullptr;  ///< null: no other reply than calls
  /// Parts of the schema may be left out; noted where what is left out of tools is.
  bool may_leave_out = false;
  bool strict = false;  ///< the schema is
};

/// With the tools marked in `free` free. `unreachable`: those of which no call could be finished.
Result<Grammar> compile_once(const Wanted& wanted, const std::vector<bool>& free, std::vector<Unheld>* unheld,
                             std::vector<bool>& unreachable) {
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder, wanted.tags);
  std::optional<NodeId> value;
  if (wanted.schema != nullptr) {
    std::vector<Unheld> left_out;
    const GraphBuilder::Mark mark = builder.mark();
    const bool must_hold = unheld == nullptr || !wanted.may_leave_out;
    SchemaCompiler json(builder, rules, *wanted.schema, must_hold ? nullptr : &left_out, wanted.strict);
    value = json.value(*wanted.schema, "schema", ValueForm::kJson, builder.end_of_rule());
    if (json.failure() && must_hold) return *json.failure();
    if (json.failure()) {
      builder.roll_back(mark);
      value = rules.value;
      left_out.assign(1, {.keyword = "schema", .sentence = json.failure()->message});
    }
    if (unheld != nullptr) std::ranges::move(left_out, std::back_inserter(*unheld));
  }
  BlockCompiler compiler(builder, rules, wanted.tags, free, unheld);
  const NodeId calls = compiler.block(wanted.tools, wanted.parallel);
  if (compiler.failure()) return *compiler.failure();
  const NodeId begin = value ? builder.split({*value, calls}) : calls;
  Result<Grammar> grammar = finish_grammar(builder, begin, rules, value ? "schema and tools" : "tools");
  unreachable.assign(wanted.tools.size(), false);
  for (std::size_t i = 0; grammar && i < wanted.tools.size(); ++i)
    unreachable[i] = grammar.value()->height(compiler.begins()[i]) > kMaxCallDepth;
  return grammar;
}

Result<Grammar> compile(const Wanted& wanted, std::vector<Unheld>* unheld) {
  const std::span<const ToolGrammar> tools = wanted.tools;
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
  std::vector<bool> free(tools.size()), unreachable;
  std::vector<Unheld> left_out;
  Result<Grammar> grammar = compile_once(wanted, free, unheld == nullptr ? nullptr : &left_out, unreachable);
  if (unheld == nullptr) return grammar;
  if (!grammar || std::ranges::find(unreachable, true) != unreachable.end()) {
    // Some tool has no arguments at all, or a reference that leads nowhere: each alone tells which.
    std::vector<Unheld> of_free;
    for (std::size_t i = 0; i < tools.size(); ++i) {
      std::vector<Unheld> ignored;
      std::vector<bool> alone;
      const Result<Grammar> single = compile_once({.tools = tools.subspan(i, 1), .tags = wanted.tags},
                                                  std::vector<bool>(1), &ignored, alone);
      if (single) continue;
      if (tools[i].strict) return single;
      free[i] = true;
      of_free.push_back({tools[i].name, "schema", single.error()});
    }
    left_out.clear();
    grammar = compile_once(wanted, free, &left_out, unreachable);
    left_out.insert(left_out.end(), of_free.begin(), of_free.end());
  }
  if (grammar) unheld->insert(unheld->end(), left_out.begin(), left_out.end());
  return grammar;
}

}  // namespace

Result<Grammar> tool_calls_grammar(std::span<const ToolGrammar> tools, bool parallel,
                                   std::vector<Unheld>* unheld, const CallTags& tags) {
  return compile({.tools = tools, .tags = tags, .parallel = parallel}, unheld);
}

Result<Grammar> json_or_tool_calls_grammar(const PythonJson& schema, std::span<const ToolGrammar> tools,
                                           bool parallel, std::vector<Unheld>* unheld, bool may_leave_out,
                                           bool strict, const CallTags& tags) {
  return compile({.tools = tools,
                  .tags = tags,
                  .parallel = parallel,
                  .schema = &schema,
                  .may_leave_out = may_leave_out,
                  .strict = strict},
                 unheld);
}

}  // namespace baleen
