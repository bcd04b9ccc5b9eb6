// Objects and arrays of a schema.
#include <algorithm>
#include <map>
#include <utility>

#include "chat/format.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"

namespace baleen {
namespace {

const PythonJson kTrue{true}, kFalse{false};

}  // namespace

/// `open`, `least` to `most` elements with commas between them, `close`. `element` takes what follows an
/// element and returns its beginning; it is asked once, so that nesting does not multiply.
template <class Element>
NodeId SchemaCompiler::list(char open, char close, std::uint64_t least, std::uint64_t most,
                            const Element& element, NodeId next) {
  const NodeId closing = builder_.byte(static_cast<std::uint8_t>(close), next);
  std::vector<NodeId> ways;
  if (least > most) return builder_.dead();
  if (least == 0) ways.push_back(closing);
  const NodeId again = builder_.later();
  if (most == 0) {
    builder_.set_later(again, closing);
  } else if (least <= 1 && most == kUnbounded) {
    const NodeId first = element(again);
    builder_.set_later(again,
                       builder_.split({builder_.byte(',', builder_.space(first)), builder_.space(closing)}));
    ways.push_back(first);
  } else {
    const NodeId counter = builder_.counter(least, most);
    const NodeId first = element(builder_.count(counter, again, builder_.space(closing)));
    builder_.set_later(again, builder_.byte(',', builder_.space(first)));
    builder_.set_begin(counter, first);
    ways.push_back(counter);
  }
  return builder_.byte(static_cast<std::uint8_t>(open), builder_.space(builder_.split(std::move(ways))));
}

/// The colon after a key, and the value.
NodeId SchemaCompiler::member_value(const PythonJson& schema, const std::string& path, NodeId next) {
  const NodeId begin = value(schema, path, ValueForm::kJson, next);
  return builder_.byte(':', builder_.split({builder_.byte(' ', begin), begin}));
}

bool ObjectShape::is_free() const {
  return properties.empty() && !needs_one && others.size() == 1 && others[0].is_any &&
         SchemaCompiler::is_anything(*others[0].schema);
}

std::vector<ObjectShape> SchemaCompiler::object_shapes(const PythonJson& schema, const std::string& path) {
  std::vector<ObjectShape> shapes;
  add_shapes(schema, path, 0, shapes);
  return shapes;
}

void SchemaCompiler::add_shapes(const PythonJson& schema, const std::string& path, int depth,
                                std::vector<ObjectShape>& shapes) {
  static constexpr int kMaxDepth = 20;
  if (failure_) return;
  if (shapes.size() >= kMaxShapes || depth > kMaxDepth) {
    wrong(path, fmt::format("its unions have more than {} alternatives", kMaxShapes));
    return;
  }
  const PythonJson* flat = flatten(schema, path, 0);
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    const PythonJson* branches = flat == nullptr ? nullptr : flat->find(name);
    if (branches == nullptr) continue;
    if (branches->as_array() == nullptr || branches->as_array()->empty()) {
      leave_out(fmt::format("{}.{}", path, name), name, "expected an array of schemas");
      continue;
    }
    for (std::size_t i = 0; i < branches->as_array()->size(); ++i)
      add_shapes((*branches->as_array())[i], fmt::format("{}.{}[{}]", path, name, i), depth + 1, shapes);
    return;
  }
  if (flat == nullptr || failure_) return;
  for (const std::string_view name : {"enum", "const"}) {
    const PythonJson* values = flat->find(name);
    if (values == nullptr) continue;
    if (values->as_array() != nullptr && values->as_array()->empty()) return;
    leave_out(path, name, fmt::format("{} of objects is not supported here", name));
  }
  const std::vector<std::string> types = types_of(*flat, path);
  if (!failure_ && std::ranges::find(types, "object") != types.end()) shapes.push_back(shape_of(*flat, path));
}

/// Of a schema without references and unions.
ObjectShape SchemaCompiler::shape_of(const PythonJson& flat, const std::string& path) {
  ObjectShape shape;
  if (const PythonJson* properties = flat.find("properties")) {
    if (properties->as_object() != nullptr) {
      for (const auto& [name, property] : *properties->as_object())
        shape.properties.push_back({name, &property, path + ".properties." + name, false});
    } else {
      leave_out(path + ".properties", "properties",
                fmt::format("expected an object, found {}", properties->kind()));
    }
  }
  add_required(flat, path, shape);
  add_other_names(flat, path, shape);
  shape.needs_one = size_keyword(flat, "minProperties", path).value_or(0) > 0;
  return shape;
}

void SchemaCompiler::add_required(const PythonJson& flat, const std::string& path, ObjectShape& shape) {
  const PythonJson* required = flat.find("required");
  if (required == nullptr) return;
  if (required->as_array() == nullptr) {
    return leave_out(path + ".required", "required",
                     fmt::format("expected an array of names, found {}", required->kind()));
  }
  const PythonJson* additional = flat.find("additionalProperties");
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < shape.properties.size(); ++i) places.emplace(shape.properties[i].name, i);
  for (const PythonJson& name : *required->as_array()) {
    if (name.as_string() == nullptr) {
      leave_out(path + ".required", "required",
                fmt::format("expected an array of names, found {} in it", name.kind()));
      continue;
    }
    const auto [known, is_new] = places.emplace(*name.as_string(), shape.properties.size());
    if (is_new) {
      shape.properties.push_back({*name.as_string(), additional != nullptr ? additional : &kTrue,
                                  path + ".required." + *name.as_string(), true});
    } else {
      shape.properties[known->second].required = true;
    }
  }
}

/// The names of each pattern. `is_open` becomes true where patterns cannot be kept: other names may be
/// such, then.
std::vector<ObjectShape::Names> SchemaCompiler::pattern_properties(const PythonJson& flat,
                                                                   const std::string& path,
                                                                   ObjectShape& shape, bool& is_open) {
  const PythonJson* patterns = flat.find("patternProperties");
  std::vector<ObjectShape::Names> names;
  if (patterns == nullptr) return names;
  if (patterns->as_object() == nullptr) {
    leave_out(path + ".patternProperties", "patternProperties",
              fmt::format("expected an object, found {}", patterns->kind()));
    is_open = true;
    return names;
  }
  const std::string where = path + ".patternProperties";
  for (const auto& [pattern, schema] : *patterns->as_object()) {
    TextSet texts = texts_of_length(0, kUnbounded);
    if (!restrict_to(pattern, "patternProperties", path, texts)) {
      is_open = true;
      continue;
    }
    const std::string place = fmt::format("{}[{}]", where, quote_python_json(pattern));
    for (ObjectShape::Property& property : shape.properties) {
      if (accepts(texts, to_characters(property.name)))
        property.schema = keep(all_of(*property.schema, schema));
    }
    names.push_back({std::move(texts), false, &schema, place});
  }
  return names;
}

void SchemaCompiler::add_other_names(const PythonJson& flat, const std::string& path, ObjectShape& shape) {
  const PythonJson* additional = flat.find("additionalProperties");
  bool is_unkept = false;
  const std::vector<ObjectShape::Names> patterns = pattern_properties(flat, path, shape, is_unkept);
  const bool is_open = additional == nullptr
                           ? shape.properties.empty() && flat.find("patternProperties") == nullptr
                           : additional->as_bool() == nullptr || *additional->as_bool();
  if (is_unkept) additional = &kTrue;

  std::optional<TextSet> rest = texts_of_length(0, kUnbounded);
  const PythonJson* names = flat.find("propertyNames");
  if (names != nullptr) {
    rest = strings_of(*names, path + ".propertyNames", 0);
    // A name that may not be makes a required property impossible and another one absent.
    std::erase_if(shape.properties, [&](ObjectShape::Property& property) {
      if (accepts(*rest, to_characters(property.name))) return false;
      property.schema = &kFalse;
      return !property.required;
    });
  }
  std::vector<std::u32string> declared;
  for (const ObjectShape::Property& property : shape.properties)
    declared.push_back(to_characters(property.name));
  if (!is_open && !is_unkept && patterns.empty()) return;
  const bool is_any = names == nullptr && declared.empty() && patterns.empty();
  if (!declared.empty()) {
    const std::optional<CharAutomaton> undeclared = except_words(any_text(), declared);
    rest = undeclared ? in_both(*rest, {{.automaton = *undeclared}}) : std::nullopt;
  }
  for (const ObjectShape::Names& pattern : patterns) {
    // What an earlier pattern took and this one matches, too, must fit both.
    const std::optional<TextSet> others = all_but(pattern.texts);
    std::vector<ObjectShape::Names> taken;
    for (ObjectShape::Names& known : shape.others) {
      std::optional<TextSet> both = in_both(known.texts, pattern.texts);
      std::optional<TextSet> alone = others ? in_both(known.texts, *others) : std::nullopt;
      if (!both || !alone) {
        rest = std::nullopt;
        break;
      }
      if (!both->empty())
        taken.push_back(
            {*std::move(both), false, keep(all_of(*known.schema, *pattern.schema)), pattern.path});
      known.texts = *std::move(alone);
    }
    std::optional<TextSet> own = rest ? in_both(*rest, pattern.texts) : std::nullopt;
    rest = rest && others ? in_both(*rest, *others) : std::nullopt;
    if (!own || !rest) break;
    taken.push_back({*std::move(own), false, pattern.schema, pattern.path});
    shape.others.insert(shape.others.end(), taken.begin(), taken.end());
  }
  if (!rest || shape.others.size() > kMaxTextParts) {
    shape.others.clear();
    leave_out(
        path, patterns.empty() ? "additionalProperties" : "patternProperties",
        "the names of its properties are too many or too long, or their patterns have bounds of length");
    if (!patterns.empty()) shape.others.push_back({texts_of_length(0, kUnbounded), true, &kTrue, path});
    return;
  }
  std::erase_if(shape.others, [](const ObjectShape::Names& one) { return one.texts.empty(); });
  if ((is_open || is_unkept) && !rest->empty()) {
    shape.others.push_back({*std::move(rest), is_any, additional != nullptr ? additional : &kTrue,
                            path + ".additionalProperties"});
  }
}

/// A property of one of these names, then `next`.
NodeId SchemaCompiler::member_of(const ObjectShape::Names& names, NodeId next) {
  const NodeId rest = member_value(*names.schema, names.path, next);
  if (names.is_any) return builder_.call(rules_.string, rest);
  const std::optional<TextSet> texts = without_markup(names.texts);
  std::optional<NodeId> key;
  if (texts) key = write_texts(builder_, *texts, Writing::kJson, rest);
  if (key) return builder_.byte('"', *key);
  leave_out(names.path, "propertyNames", "the names are too complex; simpler patterns may help");
  return failure_ ? rest : builder_.call(rules_.string, rest);
}

/// An object of undeclared properties alone.
NodeId SchemaCompiler::map_of(const PythonJson& schema, const ObjectShape& shape, const std::string& path,
                              NodeId next) {
  const std::uint64_t least = size_keyword(schema, "minProperties", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxProperties", path).value_or(kUnbounded);
  if (shape.is_free() && least == 0 && most == kUnbounded) return builder_.call(rules_.object, next);
  const auto member = [&](NodeId after) {
    std::vector<NodeId> ways;
    for (const ObjectShape::Names& names : shape.others) ways.push_back(member_of(names, after));
    return builder_.split(std::move(ways));
  };
  return list('{', '}', least, most, member, next);
}

NodeId SchemaCompiler::object(const PythonJson& schema, const std::string& path, NodeId next) {
  const ObjectShape shape = shape_of(schema, path);
  if (failure_) return next;
  if (shape.properties.empty() && !shape.others.empty()) return map_of(schema, shape, path, next);
  const auto num_required =
      static_cast<std::uint64_t>(std::ranges::count_if(shape.properties, &ObjectShape::Property::required));
  const std::uint64_t least = size_keyword(schema, "minProperties", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxProperties", path).value_or(kUnbounded);
  const auto leave_out_count = [&](std::string_view name) {
    leave_out(path, name, "minProperties and maxProperties are not supported beside properties");
  };
  if (least > std::max<std::uint64_t>(num_required, 1)) leave_out_count("minProperties");
  if (most != kUnbounded && (!shape.others.empty() || most < shape.properties.size()))
    leave_out_count("maxProperties");

  const NodeId closing = builder_.byte('}', next), spaced_closing = builder_.space(closing);
  // From the last property to the first: where a key may begin, and what may follow the member before.
  NodeId keys = kNoNode, after = spaced_closing;
  bool may_close = true;
  if (!shape.others.empty()) {
    after = builder_.later();
    std::vector<NodeId> ways;
    for (const ObjectShape::Names& names : shape.others) ways.push_back(member_of(names, after));
    keys = builder_.split(std::move(ways));
    builder_.set_later(after, builder_.split({builder_.byte(',', builder_.space(keys)), spaced_closing}));
  }
  for (std::size_t i = shape.properties.size(); i-- > 0 && !failure_;) {
    const ObjectShape::Property& property = shape.properties[i];
    if (property.name.find(chat_format::kDsml) != std::string::npos) {
      leave_out(property.path, "properties",
                fmt::format("a name holds {}, which no reply may", chat_format::kDsml));
      continue;
    }
    const NodeId entry = builder_.literal(quote_python_json(property.name),
                                          member_value(*property.schema, property.path, after));
    keys = property.required || keys == kNoNode ? entry : builder_.split({entry, keys});
    may_close = may_close && !property.required;
    const NodeId comma = builder_.byte(',', builder_.space(keys));
    after = may_close ? builder_.split({comma, spaced_closing}) : comma;
  }
  if (keys == kNoNode && shape.needs_one) return builder_.dead();
  if (keys == kNoNode) return builder_.byte('{', builder_.space(closing));
  const bool may_be_empty = may_close && !shape.needs_one;
  return builder_.byte('{', builder_.space(may_be_empty ? builder_.split({keys, closing}) : keys));
}

NodeId SchemaCompiler::array(const PythonJson& schema, const std::string& path, NodeId next) {
  const std::uint64_t least = size_keyword(schema, "minItems", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxItems", path).value_or(kUnbounded);
  const PythonJson* items = schema.find("items");
  const PythonJson* prefix = schema.find("prefixItems");
  std::string items_path = path + ".items", prefix_path = path + ".prefixItems";
  if (prefix == nullptr && items != nullptr && items->as_array() != nullptr) {  // before draft 2020-12
    std::swap(prefix, items);
    std::swap(prefix_path, items_path);
    items = schema.find("additionalItems");
  }
  if (prefix != nullptr && prefix->as_array() == nullptr) {
    leave_out(prefix_path, "prefixItems",
              fmt::format("expected an array of schemas, found {}", prefix->kind()));
    if (failure_) return next;
    prefix = nullptr;
    items = &kTrue;
  }
  const std::size_t num_first = prefix == nullptr ? 0 : prefix->as_array()->size();
  if (items == nullptr) items = num_first == 0 ? &kTrue : &kFalse;
  const bool has_rest = items->as_bool() == nullptr || *items->as_bool();
  const auto item = [&](NodeId after) { return value(*items, items_path, ValueForm::kJson, after); };
  const bool is_free = num_first == 0 && is_anything(*items) && least == 0 && most == kUnbounded;
  if (is_free) return builder_.call(rules_.array, next);
  if (num_first == 0) return list('[', ']', least, has_rest ? most : 0, item, next);

  const NodeId closing = builder_.byte(']', next), spaced_closing = builder_.space(closing);
  const auto comma = [&](NodeId element) { return builder_.byte(',', builder_.space(element)); };
  std::vector<NodeId> ways;  // after the elements so far
  if (least <= num_first) ways.push_back(spaced_closing);
  if (has_rest && most > num_first) {
    const NodeId counter = builder_.counter(least > num_first ? least - num_first : 0,
                                            most == kUnbounded ? kUnbounded : most - num_first);
    const NodeId again = builder_.later();
    const NodeId more = comma(item(builder_.count(counter, again, spaced_closing)));
    builder_.set_later(again, more);
    builder_.set_begin(counter, more);
    ways.push_back(counter);
  }
  for (std::size_t i = num_first; i-- > 0 && !failure_;) {
    const NodeId after = ways.empty() ? builder_.dead() : builder_.split(std::move(ways));
    const NodeId element =
        value((*prefix->as_array())[i], fmt::format("{}[{}]", prefix_path, i), ValueForm::kJson, after);
    ways.clear();
    if (i >= least) ways.push_back(i == 0 ? closing : spaced_closing);
    if (i < most) ways.push_back(i == 0 ? element : comma(element));
  }
  return builder_.byte('[', builder_.space(builder_.split(std::move(ways))));
}

}  // namespace baleen
