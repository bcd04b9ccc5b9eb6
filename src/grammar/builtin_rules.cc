#include "grammar/builtin_rules.h"

#include "chat/format.h"
#include "grammar/number_range.h"

namespace baleen {
namespace {

constexpr std::uint64_t kMaxExponentDigits = 3;

/// 1 to `most` digits, then `next`.
NodeId digits(GraphBuilder& builder, std::uint64_t most, NodeId next) {
  const NodeId counter = builder.counter(1, most);
  const NodeId round = builder.later();
  const NodeId digit = builder.bytes({{'0', '9', builder.count(counter, round, next)}});
  builder.set_later(round, digit);
  builder.set_begin(counter, digit);
  return counter;
}

/// -?(0|[1-9][0-9]*), then `next`.
NodeId whole_number(GraphBuilder& builder, NodeId next) {
  const NodeId more = builder.split({next, digits(builder, kMaxWholeDigits - 1, next)});
  const std::vector<ByteEdge> edges = {{'0', '0', next}, {'1', '9', more}};
  std::vector<ByteEdge> signed_edges = edges;
  signed_edges.push_back({'-', '-', builder.bytes(edges)});
  return builder.bytes(std::move(signed_edges));
}

NodeId number(GraphBuilder& builder, NodeId next) {
  const NodeId exponent_digits = digits(builder, kMaxExponentDigits, next);
  const NodeId sign = builder.split(
      {exponent_digits, builder.bytes({{'+', '+', exponent_digits}, {'-', '-', exponent_digits}})});
  const NodeId exponent = builder.split({next, builder.bytes({{'e', 'e', sign}, {'E', 'E', sign}})});
  const NodeId fraction =
      builder.split({exponent, builder.byte('.', digits(builder, kMaxFractionDigits, exponent))});
  return whole_number(builder, fraction);
}

/// `open`, elements with commas between them (`element` returns the beginning of one, given its end),
/// `close`.
template <class Element>
NodeId list(GraphBuilder& builder, char open, char close, const Element& element, NodeId next) {
  const NodeId closing = builder.byte(static_cast<std::uint8_t>(close), next);
  const NodeId loop = builder.later();
  const NodeId first = element(loop);
  const NodeId comma = builder.byte(',', builder.space(first));
  builder.set_later(loop, builder.split({comma, builder.space(closing)}));
  return builder.byte(static_cast<std::uint8_t>(open), builder.space(builder.split({first, closing})));
}

}  // namespace

std::optional<CharAutomaton> without_markup(const CharAutomaton& automaton) {
  static const std::u32string word = to_characters(chat_format::kDsml);
  return without_word(automaton, word);
}

BuiltinRules add_builtin_rules(GraphBuilder& builder, const CallTags& tags) {
  static const CharAutomaton text = *without_markup(any_text());
  BuiltinRules rules;
  const NodeId end = builder.end_of_rule();
  rules.string = builder.byte('"', write_text(builder, text, Writing::kJsonFreely, end));
  rules.integer = whole_number(builder, end);
  rules.number = number(builder, end);
  rules.parameter_closing = tags.parameter_closing;
  for (const CallTags& spelling : all_call_tags()) {
    const NodeId closing = builder.literal(spelling.parameter_closing, end);
    const NodeId raw_text = write_text(builder, text, Writing::kRaw, closing);
    if (spelling.parameter == tags.parameter) rules.raw_text = raw_text;
  }
  rules.value = builder.later();
  rules.array = list(
      builder, '[', ']', [&](NodeId next) { return builder.call(rules.value, next); }, end);
  rules.object = list(
      builder, '{', '}',
      [&](NodeId next) {
        const NodeId value = builder.split({builder.byte(' ', builder.call(rules.value, next)),  //
                                            builder.call(rules.value, next)});
        return builder.call(rules.string, builder.byte(':', value));
      },
      end);
  builder.set_later(rules.value,
                    builder.split({builder.call(rules.string, end), builder.call(rules.number, end),
                                   rules.array, rules.object, builder.literal("true", end),
                                   builder.literal("false", end), builder.literal("null", end)}));
  rules.end = static_cast<NodeId>(builder.graph().nodes.size());
  return rules;
}

}  // namespace baleen
