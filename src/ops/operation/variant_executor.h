/// Runs operations by the variants of a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/operation/executor.h"
#include "ops/operation/operation_timer.h"
#include "ops/operation/variant_choice.h"

namespace baleen {

/// Chooses for each part of a sequence that is left (`VariantChoice`). Which candidates there are is found
/// once for each sequence, which of them is quickest once for each key of a call; a call then costs a look-up
/// and the candidates' predicates.
template <class Context>
class VariantExecutor final : public Executor {
 public:
  /// `context` outlives this. Throws `Error` for a forced variant that is none of `table`, listing those
  /// there are.
  VariantExecutor(VariantTable<Context> table, const DeviceTraits& traits, Context& context,
                  std::vector<ForcedVariant> forced)
      : choice_(std::move(table), traits, std::move(forced)),
        traits_(traits),
        context_(context),
        runs_(choice_.num_variants()) {}

  /// Throws `Error` where no variant takes the arguments, with every variant's reason.
  void run(const OperationSequence& sequence, const void* const* args) override {
    Plan& plan = plan_of(sequence);
    for (std::size_t part = 0; part < sequence.parts.size();) {
      Candidates& candidates = plan[part];
      const std::size_t chosen = choice_.choose(candidates.places, args, &candidates.recent);
      if (chosen == choice_.kNone) fail_without_variant(*sequence.parts[part], candidates.places, args);
      CallTime* time = report_ != nullptr ? report(sequence.parts.subspan(part), args, chosen) : nullptr;
      run_one(chosen, args, time);
      const std::size_t num_parts = choice_.variant(chosen).sequence->parts.size();
      part += num_parts;
      args += num_parts;
    }
  }

  /// Times every variant that runs; null: none.
  void set_timer(OperationTimer* timer) { timer_ = timer; }
  /// Notes what was chosen and why, and with a timer how long it took; null: nothing. Takes microseconds a
  /// call.
  void set_report(VariantReport* report) { report_ = report; }

  /// How often the variant `name` ran as `operation` (or fusion: "hc_post_pre_norm").
  [[nodiscard]] std::int64_t num_runs(std::string_view operation, std::string_view name) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (choice_.variant(i).name == name && choice_.variant(i).sequence->name == operation) sum += runs_[i];
    }
    return sum;
  }

 private:
  /// The variants that may begin at an operation of a sequence, as places in the table.
  struct Candidates {
    std::vector<std::size_t> places;
    RecentChoices recent;
  };
  /// For each operation of a sequence.
  using Plan = std::vector<Candidates>;
  using Parts = typename VariantChoice<Context>::Parts;

  Plan& plan_of(const OperationSequence& sequence) {
    if (const auto found = plans_.find(&sequence); found != plans_.end()) return found->second;
    Plan plan;
    for (std::size_t part = 0; part < sequence.parts.size(); ++part)
      plan.push_back({choice_.candidates(sequence.parts.subspan(part)), {}});
    return plans_.emplace(&sequence, std::move(plan)).first->second;
  }

  void run_one(std::size_t place, const void* const* args, CallTime* time) {
    const AnyVariant<Context>& chosen = choice_.variant(place);
    const Parts parts = chosen.sequence->parts;
    if (!traits_.replays()) {  // a padded step has more rows than its batch
      for (std::size_t i = 0; i < parts.size(); ++i) parts[i]->check(args[i]);
    }
    ++runs_[place];
    if constexpr (requires { context_.stream.order; }) {
      if (context_.stream.order != nullptr)
        chosen.sequence->add_accesses(args, context_.stream.order->begin_operation());
    }
    if (timer_ == nullptr) return chosen.run(args, context_);
    const OpCost cost = chosen.sequence->cost(args, traits_);
    timer_->begin();
    chosen.run(args, context_);
    timer_->end(chosen.sequence->name, cost, time);
  }

  /// Where the time of the call goes.
  CallTime* report(Parts parts, const void* const* args, std::size_t chosen) const {
    CallTime* time = nullptr;
    const CallShape shape = parts.front()->shape(args[0]);
    for (const std::size_t place : choice_.beginning_with(parts)) {
      VariantVerdict verdict = choice_.verdict(place, chosen, args);
      verdict.call =
          fmt::format("{} rows{}{}", shape.num_rows, shape.detail.empty() ? "" : ", ", shape.detail);
      verdict.cost = choice_.variant(place).sequence->cost(args, traits_);
      CallTime& of_verdict = report_->add(std::move(verdict));
      if (place == chosen) time = &of_verdict;
    }
    return time;
  }

  [[noreturn]] void fail_without_variant(const OperationInfo& operation,
                                         const std::vector<std::size_t>& candidates,
                                         const void* const* args) const {
    std::string reasons;
    for (const std::size_t place : candidates) {
      if (const auto why = choice_.variant(place).why_not(args, traits_))
        reasons += fmt::format("\n  {}: {}", choice_.variant(place).name, *why);
    }
    fail("{}: no variant on {} takes {}{}", operation.name, traits_.architecture,
         operation.shape(args[0]).detail, reasons.empty() ? " (none may run alone)" : reasons);
  }

  VariantChoice<Context> choice_;
  DeviceTraits traits_;
  Context& context_;
  std::vector<std::int64_t> runs_;  ///< one for each place in the table
  std::unordered_map<const OperationSequence*, Plan> plans_;
  OperationTimer* timer_ = nullptr;
  VariantReport* report_ = nullptr;
};

}  // namespace baleen
