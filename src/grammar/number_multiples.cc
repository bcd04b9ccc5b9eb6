// Multiples as an automaton: its states are remainders, and it is made minimal, since most steps (2, 100,
// 0.05) need far fewer states than they have remainders.
#include <map>
#include <utility>
#include <vector>

#include "grammar/number_range.h"

namespace baleen {
namespace {

constexpr std::uint32_t kMaxUnits = 10'000;
constexpr std::size_t kMaxRawStates = 50'000;

/// Units of the step's last digit: 25 for 0.25. Nothing beyond kMaxUnits.
std::optional<std::uint32_t> units_of(const Decimal& step) {
  std::uint32_t units = 0;
  for (const char digit : step.whole + step.fraction) {
    units = units * 10 + static_cast<std::uint32_t>(digit - '0');
    if (units > kMaxUnits) return std::nullopt;
  }
  return step.negative || units == 0 ? std::nullopt : std::optional(units);
}

class MultiplesBuilder {
 public:
  MultiplesBuilder(std::uint32_t units, std::uint32_t decimals) : units_(units), decimals_(decimals) {}

  std::optional<CharAutomaton> run() {
    add({Part::kStart, 0, 0});
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_.size() > kMaxRawStates) return std::nullopt;
      const Place at = all_[i];
      CharAutomaton::State state{.accepts = accepts(at)};
      if (at.part == Part::kStart) state.edges.push_back({{'-', '-'}, add({Part::kSign, 0, 0})});
      const bool has_point = at.part == Part::kZero || at.part == Part::kWhole;
      if (has_point && decimals_ > 0)
        state.edges.push_back({{'.', '.'}, add({Part::kFraction, 0, at.remainder})});
      add_digits(at, state);
      result_.states.push_back(std::move(state));
    }
    trim(result_);
    return minimal(result_);
  }

 private:
  enum class Part : std::uint8_t { kStart, kSign, kZero, kWhole, kFraction };
  struct Place {
    Part part;
    std::uint32_t decimals;   ///< digits after the point
    std::uint32_t remainder;  ///< what the digits so far leave, read as a whole number
    auto operator<=>(const Place&) const = default;
  };

  std::uint32_t add(const Place& place) {
    const auto [found, is_new] = numbers_.try_emplace(place, static_cast<std::uint32_t>(all_.size()));
    if (is_new) all_.push_back(place);
    return found->second;
  }

  void add_digits(const Place& at, CharAutomaton::State& state) {
    if (at.part == Part::kZero || (at.part == Part::kFraction && at.decimals == decimals_)) return;
    const bool is_first = at.part == Part::kStart || at.part == Part::kSign;
    for (std::uint32_t digit = 0; digit < 10; ++digit) {
      Place next{at.part, at.decimals, (at.remainder * 10 + digit) % units_};
      if (is_first) next.part = digit == 0 ? Part::kZero : Part::kWhole;
      if (at.part == Part::kFraction) ++next.decimals;
      state.edges.push_back({{U'0' + digit, U'0' + digit}, add(next)});
    }
  }

  [[nodiscard]] bool accepts(const Place& at) const {
    if (at.part == Part::kStart || at.part == Part::kSign) return false;
    if (at.part == Part::kFraction && at.decimals == 0) return false;
    std::uint32_t remainder = at.remainder;
    for (std::uint32_t i = at.decimals; i < decimals_; ++i) remainder = remainder * 10 % units_;
    return remainder == 0;
  }

  /// States that accept alike and lead to equal states are one (Moore's refinement).
  static CharAutomaton minimal(const CharAutomaton& automaton) {
    const std::size_t count = automaton.states.size();
    std::vector<std::uint32_t> kind(count);
    for (std::size_t i = 0; i < count; ++i) kind[i] = automaton.states[i].accepts ? 1 : 0;
    for (std::size_t num_kinds = 0;;) {
      std::map<std::vector<std::uint32_t>, std::uint32_t> signatures;
      std::vector<std::uint32_t> finer(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<std::uint32_t> signature = {kind[i]};
        for (const CharEdge& edge : automaton.states[i].edges) {
          signature.push_back(edge.range.first);
          signature.push_back(kind[edge.target]);
        }
        finer[i] = signatures.try_emplace(std::move(signature), static_cast<std::uint32_t>(signatures.size()))
                       .first->second;
      }
      kind = std::move(finer);
      if (signatures.size() == num_kinds) break;
      num_kinds = signatures.size();
    }
    // Kinds are numbered by first appearance, so that of state 0 is 0.
    CharAutomaton result;
    for (std::size_t i = 0; i < count; ++i) {
      if (kind[i] != result.states.size()) continue;
      CharAutomaton::State state = automaton.states[i];
      for (CharEdge& edge : state.edges) edge.target = kind[edge.target];
      result.states.push_back(std::move(state));
    }
    return result;
  }

  std::uint32_t units_, decimals_;
  std::map<Place, std::uint32_t> numbers_;
  std::vector<Place> all_;
  CharAutomaton result_;
};

}  // namespace

std::optional<CharAutomaton> multiples_of(const Decimal& step) {
  const std::optional<std::uint32_t> units = units_of(step);
  if (!units) return std::nullopt;
  return MultiplesBuilder(*units, static_cast<std::uint32_t>(step.fraction.size())).run();
}

}  // namespace baleen
