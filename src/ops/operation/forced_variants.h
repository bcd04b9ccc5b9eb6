/// Which variants the user forces, by operation.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operation/operation_sequence.h"

namespace baleen {

/// `operation` is done by the variant of this name alone. An empty operation means each that has such a
/// variant.
struct ForcedVariant {
  std::string operation;
  std::string variant;

  bool operator==(const ForcedVariant&) const = default;
};

/// "linear=reference", or "reference" for all operations. Throws `Error` for text of another form.
[[nodiscard]] ForcedVariant parse_forced_variant(std::string_view text);

/// Whether `choices` make `operation` run the variant of this name, if it has one.
[[nodiscard]] bool forces(std::span<const ForcedVariant> choices, std::string_view operation,
                          std::string_view variant);

/// A variant's name and the operations that it does.
struct VariantName {
  std::string_view name;
  const OperationSequence* sequence = nullptr;
};

/// The choices of a run, checked against the variants of a device.
class ForcedVariants {
 public:
  ForcedVariants() = default;
  /// Throws `Error` for an operation or a variant that is not among `all`, listing those there are.
  ForcedVariants(std::vector<ForcedVariant> choices, const std::vector<VariantName>& all);

  /// Whether a choice keeps `variant` from running.
  [[nodiscard]] bool excludes(const VariantName& variant) const;

 private:
  /// Each operation by its own name; a choice for one operation wins over one for all.
  std::vector<ForcedVariant> by_operation_;
};

}  // namespace baleen
