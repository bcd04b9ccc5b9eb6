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

std::optional<ObjectShape> SchemaCompiler::object_shape(const PythonJson& schema, const std::string& path) {
  if (!check_keywords(schema, path)) return std::nullopt;
  const PythonJson* flat = flatten(schema, path, 0);
  if (flat == nullptr) return std::nullopt;
  for (const std::string_view name : {"anyOf", "oneOf", "enum", "const"}) {
    if (flat->find(name) == nullptr) continue;
    wrong(path, fmt::format("expected one object schema, found {}", name));
    return std::nullopt;
  }
  const std::vector<std::string> types = types_of(*flat, path);
  if (!failure_ && std::ranges::find(types, "object") == types.end())
    wrong(path, "expected the schema of an object");
  if (failure_) return std::nullopt;
  ObjectShape shape;
  const PythonJson* additional = flat->find("additionalProperties");
  if (const PythonJson* properties = flat->find("properties")) {
    if (properties->as_object() == nullptr) {
      wrong(path + ".properties", fmt::format("expected an object, found {}", properties->kind()));
      return std::nullopt;
    }
    for (const auto& [name, property] : *properties->as_object())
      shape.properties.push_back({name, &property, path + ".properties." + name, false});
  }
  if (const PythonJson* required = flat->find("required")) {
    if (required->as_array() == nullptr) {
      wrong(path + ".required", fmt::format("expected an array of names, found {}", required->kind()));
      return std::nullopt;
    }
    std::map<std::string_view, std::size_t> places;
    for (std::size_t i = 0; i < shape.properties.size(); ++i) places.emplace(shape.properties[i].name, i);
    for (const PythonJson& name : *required->as_array()) {
      if (name.as_string() == nullptr) {
        wrong(path + ".required", fmt::format("expected an array of names, found {} in it", name.kind()));
        return std::nullopt;
      }
      const auto known = places.find(*name.as_string());
      if (known != places.end()) {
        shape.properties[known->second].required = true;
      } else {
        shape.properties.push_back({*name.as_string(), additional != nullptr ? additional : &kTrue,
                                    path + ".required." + *name.as_string(), true});
      }
    }
  }
  const bool is_open = additional == nullptr ? shape.properties.empty()
                                             : additional->as_bool() == nullptr || *additional->as_bool();
  if (is_open) shape.additional = additional != nullptr ? additional : &kTrue;
  return shape;
}

NodeId SchemaCompiler::object(const PythonJson& schema, const std::string& path, NodeId next) {
  std::optional<ObjectShape> shape = object_shape(schema, path);
  if (!shape) return next;
  if (shape->properties.empty() && shape->additional != nullptr)
    return free_object(schema, *shape, path, next);
  const auto num_required =
      static_cast<std::uint64_t>(std::ranges::count_if(shape->properties, &ObjectShape::Property::required));
  const std::uint64_t least = size_keyword(schema, "minProperties", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxProperties", path).value_or(kUnbounded);
  if (least > num_required ||
      (most != kUnbounded && (shape->additional != nullptr || most < shape->properties.size())))
    return wrong(path, "minProperties and maxProperties are not supported beside properties");
  std::optional<CharAutomaton> allowed_names;
  if (const PythonJson* names = schema.find("propertyNames")) {
    allowed_names = property_names(*names, path + ".propertyNames");
    if (!allowed_names) return next;
    const auto is_allowed = [&](const ObjectShape::Property& property) {
      return accepts(*allowed_names, to_characters(property.name));
    };
    // A name that may not be makes a required property impossible and another one absent.
    for (const ObjectShape::Property& property : shape->properties) {
      if (property.required && !is_allowed(property)) return builder_.dead();
    }
    std::erase_if(shape->properties,
                  [&](const ObjectShape::Property& property) { return !is_allowed(property); });
  }

  const NodeId closing = builder_.byte('}', next), spaced_closing = builder_.space(closing);
  // From the last property to the first: where a key may begin, and what may follow the member before.
  NodeId keys = kNoNode, after = spaced_closing;
  bool may_close = true;
  if (shape->additional != nullptr) {
    std::vector<std::u32string> names;
    for (const ObjectShape::Property& property : shape->properties)
      names.push_back(to_characters(property.name));
    std::optional<CharAutomaton> key = without_markup(any_text());
    if (key) key = except_words(*key, names);
    if (key && allowed_names) key = in_both(*key, *allowed_names);
    if (!key) return wrong(path, "the names of its properties are too many or too long");
    if (!key->is_empty()) {
      after = builder_.later();
      keys = builder_.byte(
          '"', write_text(builder_, *key, Writing::kJson,
                          member_value(*shape->additional, path + ".additionalProperties", after)));
      builder_.set_later(after, builder_.split({builder_.byte(',', builder_.space(keys)), spaced_closing}));
    }
  }
  for (std::size_t i = shape->properties.size(); i-- > 0 && !failure_;) {
    const ObjectShape::Property& property = shape->properties[i];
    if (property.name.find(chat_format::kDsml) != std::string::npos)
      return wrong(property.path, fmt::format("a name holds {}, which no reply may", chat_format::kDsml));
    const NodeId entry = builder_.literal(quote_python_json(property.name),
                                          member_value(*property.schema, property.path, after));
    keys = property.required || keys == kNoNode ? entry : builder_.split({entry, keys});
    may_close = may_close && !property.required;
    const NodeId comma = builder_.byte(',', builder_.space(keys));
    after = may_close ? builder_.split({comma, spaced_closing}) : comma;
  }
  if (keys == kNoNode) return builder_.byte('{', builder_.space(closing));
  return builder_.byte('{', builder_.space(may_close ? builder_.split({keys, closing}) : keys));
}

/// The names that a schema of property names takes, beside declared properties.
std::optional<CharAutomaton> SchemaCompiler::property_names(const PythonJson& schema,
                                                            const std::string& path) {
  static const PythonJson kString{PythonJson::Object{{"type", "string"}}};
  const PythonJson* flat =
      schema.as_bool() != nullptr && *schema.as_bool() ? &kString : merged(schema, kString, path);
  if (flat == nullptr || !check_keywords(*flat, path)) return std::nullopt;
  for (const std::string_view name : {"anyOf", "oneOf", "enum", "const"}) {
    if (flat->find(name) == nullptr) continue;
    wrong(path, fmt::format("{} is not supported beside properties; pattern, format and lengths are", name));
    return std::nullopt;
  }
  std::optional<CharAutomaton> names = string_rules(*flat, path);
  const std::uint64_t least = size_keyword(*flat, "minLength", path).value_or(0);
  const std::uint64_t most = size_keyword(*flat, "maxLength", path).value_or(kUnbounded);
  if (failure_ || !names) return std::nullopt;
  if (least > 0 || most != kUnbounded) names = of_length(*names, least, most);
  if (!names) wrong(path, "pattern and lengths together are too complex; smaller bounds may help");
  return names;
}

NodeId SchemaCompiler::free_object(const PythonJson& schema, const ObjectShape& shape,
                                   const std::string& path, NodeId next) {
  const std::uint64_t least = size_keyword(schema, "minProperties", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxProperties", path).value_or(kUnbounded);
  const PythonJson* names = schema.find("propertyNames");
  if (is_anything(*shape.additional) && names == nullptr && least == 0 && most == kUnbounded)
    return builder_.call(rules_.object, next);
  const auto member = [&](NodeId after) {
    const NodeId rest = member_value(*shape.additional, path + ".additionalProperties", after);
    if (names == nullptr) return builder_.call(rules_.string, rest);
    static const PythonJson kString{PythonJson::Object{{"type", "string"}}};
    const PythonJson* both = merged(*names, kString, path + ".propertyNames");
    return both == nullptr ? rest : value(*both, path + ".propertyNames", ValueForm::kJson, rest);
  };
  return list('{', '}', least, most, member, next);
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
  if (prefix != nullptr && prefix->as_array() == nullptr)
    return wrong(prefix_path, fmt::format("expected an array of schemas, found {}", prefix->kind()));
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
