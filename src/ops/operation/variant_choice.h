/// Which variants of a table may do a call, which of them does it, and why not the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/operation/forced_variants.h"
#include "ops/operation/variant_report.h"
#include "ops/operation/variant_table.h"

namespace baleen {

/// Of a sequence, the variants that do all of it in one pass come first, then those of its beginning, down
/// to the first operation alone.
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

  /// Of `candidates` the one that runs; kNone where none can.
  [[nodiscard]] std::size_t choose(const std::vector<std::size_t>& candidates,
                                   const void* const* args) const {
    std::size_t slower = kNone;
    for (const std::size_t place : candidates) {
      if (variant(place).why_not(args, traits_)) continue;
      if (!variant(place).why_slower(args, traits_)) return place;
      if (slower == kNone) slower = place;
    }
    return slower;
  }

  /// What became of the variant at `place`, where the one at `chosen` runs; without call and cost.
  [[nodiscard]] VariantVerdict verdict(std::size_t place, std::size_t chosen, const void* const* args) const {
    VariantVerdict verdict{.operation = variant(place).sequence->name, .variant = variant(place).name};
    if (place == chosen) {
      verdict.outcome = VariantOutcome::kChosen;
    } else if (is_excluded(place)) {
      verdict.outcome = VariantOutcome::kExcluded;
    } else if (const auto why = variant(place).why_not(args, traits_)) {
      verdict.outcome = VariantOutcome::kRefused;
      verdict.reason = *why;
    } else if (const auto slower = variant(place).why_slower(args, traits_)) {
      verdict.outcome = VariantOutcome::kSlower;
      verdict.reason = *slower;
    }
    return verdict;
  }

 private:
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
