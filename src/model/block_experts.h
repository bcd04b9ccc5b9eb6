/// An expert map that replaces another while ranks serve.
#pragma once

#include <cstdint>
#include <vector>

namespace baleen {

/// The map that one block gets.
struct BlockExperts {
  std::int64_t block = 0;           ///< number in the whole model
  std::vector<std::int32_t> slots;  ///< physical_to_logical [P]
  bool operator==(const BlockExperts&) const = default;
};

}  // namespace baleen
