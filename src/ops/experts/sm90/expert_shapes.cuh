/// The shapes in which the products kernel exists.
#pragma once

#include <utility>

namespace baleen::sm90 {

/// Three groups of one warpgroup with two tiles of 64 rows.
struct FewTokenSizes {
  static constexpr bool kExchanges = false;
  static constexpr int kGroups = 3, kWarpgroups = 1, kRowTiles = 2, kStages = 3;
  using TokenCounts = std::integer_sequence<int, 8, 16>;
  static constexpr int kBoxTokens = 8, kSmallBoxTokens = 4, kMaxSmallBoxes = 1;
  static constexpr int kScaleBoxTokens = 16;
  static constexpr int kPlannedTiles = 520;  // of 512 assignments, and as many shared ones as 64 tokens have
  static constexpr int kScaleWarps = 0;
  static constexpr int kConsumerRegisters = 0, kProducerRegisters = 0;
};

/// One group of two warpgroups with two tiles of 64 rows each: 256 rows an item.
struct ManyTokenSizes {
  static constexpr bool kExchanges = false;
  static constexpr int kGroups = 1, kWarpgroups = 2, kRowTiles = 2, kStages = 3;
  using TokenCounts = std::integer_sequence<int, 16, 32, 64, 96, 112>;
  static constexpr int kBoxTokens = 56, kSmallBoxTokens = 16, kMaxSmallBoxes = 3;
  static constexpr int kScaleBoxTokens = 64;
  static constexpr int kPlannedTiles = 0;
  static constexpr int kScaleWarps = 3;
  // The loading warps give registers to those that multiply.
  static constexpr int kConsumerRegisters = 224, kProducerRegisters = 56;
};

}  // namespace baleen::sm90
