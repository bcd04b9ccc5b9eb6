/// Steps of few rows are captured once, as graphs, and replayed with other batches.
#pragma once

#include <cstdint>

namespace baleen {

/// Rows of the largest step that is captured. An operation over as many or fewer decides nothing by the
/// batch's contents.
inline constexpr std::int64_t kMaxGraphRows = 256;

}  // namespace baleen
