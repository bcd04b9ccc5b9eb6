/// Which variants of a table may do a call, which of them does it, and why not the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/operation/forced_variants.h"
#include "ops/operation/kernel_time.h"
#include "ops/operation/variant_report.h"
#include "ops/operation/variant_table.h"

namespace baleen {

/// The latest choices by predictions, by what they depended on: a few, each at its key's place.
class RecentChoices {
 public:
  [[nodiscard]] std::optional<std::size_t> find(const CallKey& key) const {
    const Entry& entry = entries_[key.place(kBits)];
    return entry.is_set && entry.key == key ? std::optional(entry.choice) : std::nullopt;
  }
  void keep(const CallKey& key, std::size_t choice) { entries_[key.place(kBits)] = {key, choice, true}; }

 private:
  static constexpr int kBits = 6;
  struct Entry {
    CallKey key;
    std::size_t choice = 0;
    bool is_set = false;
  };
  std::array<Entry, std::size_t{1} << kBits> entries_{};
};

/// Of a sequence, the variants that do all of it in one pass come first, then those of its beginning, down
/// to the first operation alone. Predictions decide among variants of the same operations.
template <class Context>
class VariantChoice {
 public:
  using Parts = std::span<const OperationInfo* const>;
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// Throws `Error` for a forced variant that is none of `table`, listing those there are.
  VariantChoice(VariantTable<Context> table, const DeviceTraits& traits, std::vector<ForcedVariant> forced)
      : table_(std::move(table)), traits_(traits), forced_(std::move(forced), names()) {}

  [[nodiscard]] std::size_t num_variants() const { return table_.variants().size(); }
  [[nodiscard]] const AnyVariant<Context>& variant(std::size_t place) const {
    return table_.variants()[place];
  }

  /// Places in the table of the variants that do the beginning of `parts`, those of most operations first; of
  /// them those that are not excluded.
  [[nodiscard]] std::vector<std::size_t> candidates(Parts parts) const {
    std::vector<std::size_t> places = beginning_with(parts);
    std::erase_if(places, [&](std::size_t place) { return is_excluded(place); });
    return places;
  }
  [[nodiscard]] std::vector<std::size_t> beginning_with(Parts parts) const {
    std::vector<std::size_t> places;
    for (std::size_t length = parts.size(); length > 0; --length) {
      for (std::size_t i = 0; i < num_variants(); ++i) {
        if (are_same(variant(i).sequence->parts, parts.first(length))) places.push_back(i);
      }
    }
    return places;
  }

  /// Of `candidates` the one that runs; kNone where none can. `recent`: of these candidates; null: nothing is
  /// kept.
  [[nodiscard]] std::size_t choose(std::span<const std::size_t> candidates, const void* const* args,
                                   RecentChoices* recent = nullptr) const {
    while (!candidates.empty()) {
      const std::span<const std::size_t> peers = candidates.first(num_peers(candidates));
      Fitting fitting;
      for (const std::size_t place : peers) {
        if (!variant(place).why_not(args, traits_))
          fitting.add(place, variant(place).predict_typed != nullptr);
      }
      if (fitting.num_predicted > 1) return quickest_of(peers, fitting, args, recent);
      if (fitting.best != kNone) return fitting.best;
      candidates = candidates.subspan(peers.size());
    }
    return kNone;
  }

  /// What became of the variant at `place`, where the one at `chosen` runs; without call and cost.
  [[nodiscard]] VariantVerdict verdict(std::size_t place, std::size_t chosen, const void* const* args) const {
    const AnyVariant<Context>& one = variant(place);
    VariantVerdict verdict{.operation = one.sequence->name, .variant = one.name};
    if (is_excluded(place)) {
      verdict.outcome = VariantOutcome::kExcluded;
    } else if (const auto why = one.why_not(args, traits_)) {
      verdict.outcome = VariantOutcome::kRefused;
      verdict.reason = *why;
    } else {
      verdict.predicted_seconds = one.predict(args, traits_);
      const bool slower = chosen != kNone && variant(chosen).sequence == one.sequence &&
                          variant(chosen).predict_typed != nullptr && verdict.predicted_seconds;
      verdict.outcome = place == chosen ? VariantOutcome::kChosen
                        : slower        ? VariantOutcome::kSlower
                                        : VariantOutcome::kNotNeeded;
    }
    return verdict;
  }

 private:
  /// Those of the variants for one sequence that take the arguments.
  struct Fitting {
    std::size_t best = kNone;  ///< the first, of those with a prediction where there are any
    int num_predicted = 0;
    CallKey places;

    void add(std::size_t place, bool is_predicted) {
      places.add(static_cast<std::int64_t>(place));
      if (best == kNone || (is_predicted && num_predicted == 0)) best = place;
      num_predicted += is_predicted ? 1 : 0;
    }
  };

  /// How many of the first candidates do the same operations.
  [[nodiscard]] std::size_t num_peers(std::span<const std::size_t> candidates) const {
    const std::size_t length = variant(candidates.front()).sequence->parts.size();
    std::size_t count = 1;
    while (count < candidates.size() && variant(candidates[count]).sequence->parts.size() == length) ++count;
    return count;
  }

  [[nodiscard]] std::size_t quickest_of(std::span<const std::size_t> peers, const Fitting& fitting,
                                        const void* const* args, RecentChoices* recent) const {
    std::optional<CallKey> key;
    if (recent != nullptr) key = key_of(variant(fitting.best).sequence->parts, args);
    if (key) {
      key->add(fitting.places);
      if (const auto known = recent->find(*key)) return *known;
    }
    std::size_t best = kNone;
    double best_seconds = 0;
    for (const std::size_t place : peers) {
      const std::optional<double> seconds = variant(place).predict(args, traits_);
      if (!seconds || (best != kNone && *seconds >= best_seconds) || variant(place).why_not(args, traits_))
        continue;
      best = place;
      best_seconds = *seconds;
    }
    if (key) recent->keep(*key, best);
    return best;
  }

  /// Of the operations' calls; none where one of them has none.
  [[nodiscard]] static std::optional<CallKey> key_of(Parts parts, const void* const* args) {
    CallKey key;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i]->key == nullptr) return std::nullopt;
      key.add(parts[i]->key(args[i]));
    }
    return key;
  }

  /// By name: a table may be a module's, whose descriptions of operations lie at addresses of their own.
  [[nodiscard]] static bool are_same(Parts one, Parts other) {
    return std::ranges::equal(one, other, {}, &OperationInfo::name, &OperationInfo::name);
  }
  [[nodiscard]] bool is_excluded(std::size_t place) const {
    return forced_.excludes({variant(place).name, variant(place).sequence});
  }
  [[nodiscard]] std::vector<VariantName> names() const {
    std::vector<VariantName> all;
    for (const AnyVariant<Context>& variant : table_.variants())
      all.push_back({variant.name, variant.sequence});
    return all;
  }

  VariantTable<Context> table_;
  DeviceTraits traits_;
  ForcedVariants forced_;
};

/// Verdicts about every variant of `sequence`, best first, for arguments whose arrays are not read.
template <class Context>
[[nodiscard]] std::vector<VariantVerdict> verdicts(const VariantChoice<Context>& choice,
                                                   const OperationSequence& sequence,
                                                   const void* const* args) {
  const std::size_t chosen = choice.choose(choice.candidates(sequence.parts), args);
  std::vector<VariantVerdict> all;
  for (const std::size_t place : choice.beginning_with(sequence.parts))
    all.push_back(choice.verdict(place, chosen, args));
  return all;
}

}  // namespace baleen
