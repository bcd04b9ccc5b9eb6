/// Ranges of the numbers that several commands take. Their products stay far below 2^63.
#pragma once

#include "base/number.h"

namespace baleen {

inline constexpr WholeRange kThreadsRange{1, 1024};
inline constexpr WholeRange kThreadsOrAllRange{0, 1024};
inline constexpr WholeRange kStepTokensRange{1, 1 << 20};
/// From how many rows on something is done; 0: never.
inline constexpr WholeRange kRowsOrNeverRange{0, 1 << 20};
inline constexpr WholeRange kSequencesRange{1, 1 << 16};
inline constexpr WholeRange kPositionsRange{0, std::int64_t{1} << 40};
/// Tokens to feed or to generate.
inline constexpr WholeRange kTokensRange{0, 1 << 26};
inline constexpr WholeRange kTokensAtLeastOneRange{1, 1 << 26};
inline constexpr WholeRange kPagesRange{0, 1 << 30};
inline constexpr WholeRange kLayersRange{1, 4096};
inline constexpr WholeRange kExpertsRange{1, 1 << 16};
inline constexpr WholeRange kDraftsRange{0, 16};
inline constexpr WholeRange kRequestsRange{1, 1 << 26};
inline constexpr WholeRange kQueueLengthRange{0, 1 << 26};
inline constexpr WholeRange kShardBytesRange{1, std::int64_t{1} << 60};
inline constexpr WholeRange kDiskBytesRange{1, std::int64_t{1} << 60};
inline constexpr WholeRange kWeightBytesRange{0, std::int64_t{1} << 60};

inline constexpr RealRange kShareRange{.min = 0, .max = 1};
inline constexpr RealRange kMillisecondsRange{.min = 0, .max = 1e9};
inline constexpr RealRange kSecondsRange{.min = 0, .max = 1e9};
inline constexpr RealRange kGigabytesRange{.min = 0, .max = 1e5};
/// Of the rank that gets most over the mean.
inline constexpr RealRange kImbalanceRange{.min = 1, .max = 1e6};
inline constexpr RealRange kMeanTokensRange{.min = 1, .max = 1e9};
inline constexpr RealRange kVariationRange{.min = 0, .max = 100};

}  // namespace baleen
