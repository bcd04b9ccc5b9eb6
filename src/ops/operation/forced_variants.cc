#include "ops/operation/forced_variants.h"

#include <algorithm>

#include "base/error.h"

namespace baleen {
namespace {

bool does(const VariantName& variant, std::string_view operation) {
  return std::ranges::any_of(variant.sequence->parts,
                             [&](const OperationInfo* part) { return part->name == operation; });
}

/// Names of the variants of `operation`, or of all with an empty one: "simd, reference".
std::string list_variants(std::string_view operation, const std::vector<VariantName>& all) {
  std::vector<std::string_view> names;
  for (const VariantName& variant : all) {
    if ((operation.empty() || does(variant, operation)) && !std::ranges::count(names, variant.name))
      names.push_back(variant.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> operations_of(const std::vector<VariantName>& all) {
  std::vector<std::string_view> names;
  for (const VariantName& variant : all) {
    for (const OperationInfo* part : variant.sequence->parts)
      if (!std::ranges::count(names, part->name)) names.push_back(part->name);
  }
  return names;
}

}  // namespace

ForcedVariant parse_forced_variant(std::string_view text) {
  const std::size_t equals = text.find('=');
  ForcedVariant choice;
  if (equals == std::string_view::npos) {
    choice.variant = text;
  } else {
    choice = {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  }
  if (choice.variant.empty() || equals == 0) {
    fail(
        "‹variant› {}: expected OPERATION=VARIANT, such as linear=reference, or a VARIANT for all operations",
        text);
  }
  return choice;
}

bool forces(std::span<const ForcedVariant> choices, std::string_view operation, std::string_view variant) {
  std::string_view forced;
  bool by_name = false;
  for (const ForcedVariant& choice : choices) {
    if (choice.operation != operation && (by_name || !choice.operation.empty())) continue;
    forced = choice.variant;
    by_name = !choice.operation.empty();
  }
  return forced == variant;
}

ForcedVariants::ForcedVariants(std::vector<ForcedVariant> choices, const std::vector<VariantName>& all) {
  const std::vector<std::string_view> operations = operations_of(all);
  const auto has = [&](std::string_view operation, std::string_view name) {
    return std::ranges::any_of(all,
                               [&](const VariantName& v) { return v.name == name && does(v, operation); });
  };
  for (const ForcedVariant& choice : choices) {
    if (!choice.operation.empty()) continue;
    const std::size_t before = by_operation_.size();
    for (const std::string_view operation : operations) {
      if (has(operation, choice.variant)) by_operation_.push_back({std::string(operation), choice.variant});
    }
    if (by_operation_.size() == before) {
      fail("‹variant› {}: no operation of this device has such a variant; there are {}", choice.variant,
           list_variants("", all));
    }
  }
  for (ForcedVariant& choice : choices) {
    if (choice.operation.empty()) continue;
    if (!std::ranges::count(operations, choice.operation)) {
      fail("‹variant› {}={}: there is no such operation; there are {}", choice.operation, choice.variant,
           fmt::join(operations, ", "));
    }
    if (!has(choice.operation, choice.variant)) {
      fail("‹variant› {}={}: this device has {} as {}", choice.operation, choice.variant, choice.operation,
           list_variants(choice.operation, all));
    }
    std::erase_if(by_operation_,
                  [&](const ForcedVariant& other) { return other.operation == choice.operation; });
    by_operation_.push_back(std::move(choice));
  }
}

bool ForcedVariants::excludes(const VariantName& variant) const {
  return std::ranges::any_of(by_operation_, [&](const ForcedVariant& choice) {
    return choice.variant != variant.name && does(variant, choice.operation);
  });
}

}  // namespace baleen
