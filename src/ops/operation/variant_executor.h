/// Runs operations by the variants of a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/operation/executor.h"
#include "ops/operation/forced_variants.h"
#include "ops/operation/operation_timer.h"
#include "ops/operation/variant_report.h"
#include "ops/operation/variant_table.h"

namespace baleen {

/// Of a sequence, the variants that do all of it in one pass come first, then those of its beginning, down to the first
/// operation alone; what is left is chosen in the same way. Which candidates there are is found once for each sequence; a call
/// then costs a look-up and their predicates.
template <class Context>
class VariantExecutor final : public Executor {
 public:
  /// `context` outlives this. Throws `Error` for a forced variant that is none of `table`, listing those there are.
  VariantExecutor(VariantTable<Context> table, const DeviceTraits& traits, Context& context,
                  std::vector<ForcedVariant> forced)
      : table_(std::move(table)),
        traits_(traits),
        context_(context),
        forced_(std::move(forced), names()),
        runs_(table_.variants().size()) {}

  /// Throws `Error` where no variant takes the arguments, with every variant's reason.
  void run(const OperationSequence& sequence, const void* const* args) override {
    const Plan& plan = plan_of(sequence);
    for (std::size_t part = 0; part < sequence.parts.size();) {
      const std::size_t chosen = choose(plan[part], args);
      if (chosen == kNone) fail_without_variant(*sequence.parts[part], plan[part], args);
      if (report_ != nullptr) report(sequence.parts.subspan(part), args, chosen);
      run_one(chosen, args);
      const std::size_t num_parts = variant(chosen).sequence->parts.size();
      part += num_parts;
      args += num_parts;
    }
  }

  /// Times every variant that runs; null: none.
  void set_timer(OperationTimer* timer) { timer_ = timer; }
  /// Notes what was chosen and why; null: nothing. Takes microseconds a call.
  void set_report(VariantReport* report) { report_ = report; }

  /// How often the variant `name` ran as `operation` (or fusion: "hc_post_pre_norm").
  [[nodiscard]] std::int64_t num_runs(std::string_view operation, std::string_view name) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (variant(i).name == name && variant(i).sequence->name == operation) sum += runs_[i];
    }
    return sum;
  }

 private:
  /// For each operation of a sequence the variants that may begin there, as places in the table.
  using Plan = std::vector<std::vector<std::size_t>>;
  using Parts = std::span<const OperationInfo* const>;
  static constexpr std::size_t kNone = ~std::size_t{0};

  [[nodiscard]] const AnyVariant<Context>& variant(std::size_t place) const {
    return table_.variants()[place];
  }

  [[nodiscard]] std::vector<VariantName> names() const {
    std::vector<VariantName> all;
    for (const AnyVariant<Context>& variant : table_.variants())
      all.push_back({variant.name, variant.sequence});
    return all;
  }

  /// Variants that do the beginning of `parts`, those of most operations first.
  [[nodiscard]] std::vector<std::size_t> beginning_with(Parts parts) const {
    std::vector<std::size_t> places;
    for (std::size_t length = parts.size(); length > 0; --length) {
      for (std::size_t i = 0; i < table_.variants().size(); ++i) {
        if (std::ranges::equal(variant(i).sequence->parts, parts.first(length))) places.push_back(i);
      }
    }
    return places;
  }

  const Plan& plan_of(const OperationSequence& sequence) {
    if (const auto found = plans_.find(&sequence); found != plans_.end()) return found->second;
    Plan plan;
    for (std::size_t part = 0; part < sequence.parts.size(); ++part) {
      plan.push_back(beginning_with(sequence.parts.subspan(part)));
      std::erase_if(plan.back(), [&](std::size_t place) {
        return forced_.excludes({variant(place).name, variant(place).sequence});
      });
    }
    return plans_.emplace(&sequence, std::move(plan)).first->second;
  }

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

  void run_one(std::size_t place, const void* const* args) {
    const AnyVariant<Context>& chosen = variant(place);
    const Parts parts = chosen.sequence->parts;
    if (!traits_.replays()) {  // a padded step has more rows than its batch
      for (std::size_t i = 0; i < parts.size(); ++i) parts[i]->check(args[i]);
    }
    ++runs_[place];
    if (timer_ == nullptr) return chosen.run(args, context_);
    const OpCost cost = chosen.sequence->cost(args, traits_);
    timer_->begin();
    chosen.run(args, context_);
    timer_->end(chosen.sequence->name, cost);
  }

  void report(Parts parts, const void* const* args, std::size_t chosen) const {
    for (const std::size_t place : beginning_with(parts)) {
      const AnyVariant<Context>& candidate = variant(place);
      const CallShape shape = parts.front()->shape(args[0]);
      VariantVerdict verdict{
          .operation = candidate.sequence->name,
          .variant = candidate.name,
          .call = fmt::format("{} rows{}{}", shape.num_rows, shape.detail.empty() ? "" : ", ", shape.detail),
          .cost = candidate.sequence->cost(args, traits_)};
      if (place == chosen) {
        verdict.outcome = VariantOutcome::kChosen;
      } else if (forced_.excludes({candidate.name, candidate.sequence})) {
        verdict.outcome = VariantOutcome::kExcluded;
      } else if (const auto why = candidate.why_not(args, traits_)) {
        verdict.outcome = VariantOutcome::kRefused;
        verdict.reason = *why;
      } else if (const auto slower = candidate.why_slower(args, traits_)) {
        verdict.outcome = VariantOutcome::kSlower;
        verdict.reason = *slower;
      }
      report_->add(std::move(verdict));
    }
  }

  [[noreturn]] void fail_without_variant(const OperationInfo& operation,
                                         const std::vector<std::size_t>& candidates,
                                         const void* const* args) const {
    std::string reasons;
    for (const std::size_t place : candidates) {
      if (const auto why = variant(place).why_not(args, traits_))
        reasons += fmt::format("\n  {}: {}", variant(place).name, *why);
    }
    fail("{}: no variant on {} takes {}{}", operation.name, traits_.architecture,
         operation.shape(args[0]).detail, reasons.empty() ? " (none may run alone)" : reasons);
  }

  VariantTable<Context> table_;
  DeviceTraits traits_;
  Context& context_;
  ForcedVariants forced_;
  std::vector<std::int64_t> runs_;  ///< by place in the table
  std::unordered_map<const OperationSequence*, Plan> plans_;
  OperationTimer* timer_ = nullptr;
  VariantReport* report_ = nullptr;
};

}  // namespace baleen
