#include "damaged_calls.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "everyday_calls.h"
#include "shape_damage.h"
#include "tag_damage.h"
#include "value_damage.h"

namespace baleen::test {
namespace {

class Cases {
 public:
  Cases(std::uint32_t seed, int rounds) : random_(seed), rounds_(rounds) {}

  std::vector<DamagedCalls> run() {
    for (const TagDamage& damage : tag_damages()) add_tag_damage(damage);
    for (const ValueDamage& damage : value_damages()) add_value_damage(damage);
    for (const ShapeDamage& damage : shape_damages()) add_shape(damage);
    return std::move(cases_);
  }

 private:
  std::vector<Call> draw() {
    std::vector<Call> calls = {drawn_call(random_)};
    if (random_() % 4 == 0) calls.push_back(drawn_call(random_));
    return calls;
  }

  void add(const char* kind, std::string text, const std::vector<Call>& calls, bool is_clear) {
    DamagedCalls made{
        .kind = kind, .text = "One moment." + std::move(text), .meant = {}, .is_clear = is_clear};
    for (const Call& call : calls) made.meant.push_back(call.meant);
    cases_.push_back(std::move(made));
  }

  /// Without its closing tag and that one's newline, such a value reads as one without a newline of its own:
  /// a limit of the reader.
  static bool ends_its_only_line(const Call& call) {
    return std::ranges::any_of(call.parameters, [](const Parameter& parameter) {
      return parameter.text.find('\n') == parameter.text.size() - 1;
    });
  }

  void add_tag_damage(const TagDamage& damage) {
    const std::string_view from = damage.from;
    const bool takes_newlines = from.ends_with("parameter>\n") && std::string_view(damage.to).empty();
    for (int i = 0; i < rounds_; ++i) {
      const std::vector<Call> calls = draw();
      if (takes_newlines && std::ranges::any_of(calls, ends_its_only_line)) continue;
      std::vector<Piece> pieces = block_of(calls);
      const std::string sound = joined(pieces);
      replace_in_tags(pieces, damage.from, damage.to, i % 2 == 0 ? nullptr : &random_);
      const std::string text = joined(pieces);
      if (text != sound) add(damage.kind, text, calls, damage.is_clear);
    }
  }

  void add_value_damage(const ValueDamage& damage) {
    for (int i = 0, num_made = 0; i < 60 * rounds_ && num_made < 2 * rounds_; ++i) {
      std::vector<Call> calls = {drawn_call(random_)};
      if (calls[0].parameters.empty()) continue;
      Parameter& parameter = calls[0].parameters[random_() % calls[0].parameters.size()];
      const std::string before = parameter.text;
      const bool was_string = parameter.is_string;
      if (!damage.apply(parameter, random_)) continue;
      if (parameter.text == before && parameter.is_string == was_string) continue;
      add(damage.kind, joined(block_of(calls)), calls, damage.is_clear);
      ++num_made;
    }
  }

  void add_shape(const ShapeDamage& damage) {
    for (int i = 0, num_made = 0; i < 60 * rounds_ && num_made < 2 * rounds_; ++i) {
      const Call call = drawn_call(random_);
      const std::string text = damage.text(call, random_);
      if (text.empty()) continue;
      add(damage.kind, text, {call}, damage.is_clear);
      ++num_made;
    }
  }

  Random random_;
  int rounds_;
  std::vector<DamagedCalls> cases_;
};

}  // namespace

std::vector<DamagedCalls> damaged_calls(std::uint32_t seed, int rounds) { return Cases(seed, rounds).run(); }

}  // namespace baleen::test
