/// All variants of a device, best first for each sequence of operations, without the operations' types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/operation/operation_sequence.h"
#include "ops/operation/type_list.h"
#include "ops/operation/variant.h"

namespace baleen {

/// A `Variant` seen through pointers; `typed` is what it was made of.
template <class Context>
struct AnyVariant {
  std::string_view name;
  const OperationSequence* sequence = nullptr;
  const void* typed = nullptr;
  void (*run_typed)(const void* typed, const void* const* args, Context& context) = nullptr;
  std::optional<Reason> (*why_not_typed)(const void* typed, const void* const* args,
                                         const DeviceTraits& traits) = nullptr;
  double (*predict_typed)(const void* typed, const void* const* args, const DeviceTraits& traits) = nullptr;
  std::int64_t (*scratch_bytes)(const StepShape& shape, const DeviceTraits& traits) = nullptr;

  void run(const void* const* args, Context& context) const { run_typed(typed, args, context); }
  [[nodiscard]] std::optional<Reason> why_not(const void* const* args, const DeviceTraits& traits) const {
    return why_not_typed == nullptr ? std::nullopt : why_not_typed(typed, args, traits);
  }
  /// Seconds; none: the variant has no prediction.
  [[nodiscard]] std::optional<double> predict(const void* const* args, const DeviceTraits& traits) const {
    return predict_typed == nullptr ? std::nullopt : std::optional(predict_typed(typed, args, traits));
  }
};

template <class Context>
class VariantTable {
 public:
  /// `variants` live as long as the program.
  template <class... Ops>
  void add(std::span<const Variant<Context, Ops...>> variants) {
    for (const Variant<Context, Ops...>& variant : variants) {
      add_one<Ops...>(variant, std::index_sequence_for<Ops...>());
    }
  }

  [[nodiscard]] std::span<const AnyVariant<Context>> variants() const { return variants_; }

  /// Every operation gives back what it took, so the largest counts.
  [[nodiscard]] std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) const {
    std::int64_t most = 0;
    for (const AnyVariant<Context>& variant : variants_) {
      if (variant.scratch_bytes != nullptr) most = std::max(most, variant.scratch_bytes(shape, traits));
    }
    return most;
  }

 private:
  template <class... Ops, std::size_t... kIndex>
  void add_one(const Variant<Context, Ops...>& variant, std::index_sequence<kIndex...> /*indices*/) {
    using Typed = Variant<Context, Ops...>;
    AnyVariant<Context> any{.name = variant.name,
                            .sequence = &kOperationSequence<Ops...>,
                            .typed = &variant,
                            .run_typed =
                                [](const void* typed, const void* const* args, Context& context) {
                                  static_cast<const Typed*>(typed)->run(
                                      *static_cast<const typename Ops::Args*>(args[kIndex])..., context);
                                },
                            .scratch_bytes = variant.scratch_bytes};
    if (variant.why_not != nullptr) {
      any.why_not_typed = [](const void* typed, const void* const* args, const DeviceTraits& traits) {
        return static_cast<const Typed*>(typed)->why_not(
            *static_cast<const typename Ops::Args*>(args[kIndex])..., traits);
      };
    }
    if (variant.predict != nullptr) {
      any.predict_typed = [](const void* typed, const void* const* args, const DeviceTraits& traits) {
        return static_cast<const Typed*>(typed)->predict(
            *static_cast<const typename Ops::Args*>(args[kIndex])..., traits);
      };
    }
    variants_.push_back(any);
  }

  std::vector<AnyVariant<Context>> variants_;
};

/// The CPU's variants of a list of operations.
template <class... Ops>
[[nodiscard]] VariantTable<CpuContext> cpu_variants(TypeList<Ops...> /*operations*/) {
  VariantTable<CpuContext> table;
  (table.add(Ops::cpu_variants()), ...);
  return table;
}

}  // namespace baleen
