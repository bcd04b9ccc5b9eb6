/// A list of kernels: for each call of an operation that differs, its variants, why each was taken or
/// refused, the time predicted for it, and of the one that ran the time it took.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "benchmark/ceilings.h"
#include "ops/operation/variant_report.h"

namespace baleen {

/// Seconds that a call takes at least, whatever the variant: at the device's peaks.
[[nodiscard]] double least_seconds(const VariantVerdict& verdict, const Ceilings& ceilings);

/// "chosen", "refused: takes one token"
[[nodiscard]] std::string describe_outcome(const VariantVerdict& verdict);

[[nodiscard]] std::string kernel_table(const VariantReport& report, const Ceilings& ceilings);
[[nodiscard]] nlohmann::ordered_json kernels_to_json(const VariantReport& report, const Ceilings& ceilings);

}  // namespace baleen
