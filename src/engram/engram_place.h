/// Where Engram tables can lie, and which place a plan takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace baleen {

enum class EngramPlace : std::uint8_t {
  kDevice,  ///< the device's own memory
  kHost,    ///< memory of the host that the device reads where it lies
  kMapped,  ///< the file's map, which a device that works in the host's memory reads
  kDisk     ///< the file alone: a step's rows are read before it and brought to the device
};

/// What a user asks for.
enum class EngramWish : std::uint8_t { kAuto, kGpu, kHost, kDisk };

/// "the GPU's memory", ...
[[nodiscard]] std::string_view engram_place_name(EngramPlace place);

struct EngramRoom {
  std::int64_t table_bytes = 0;        ///< all tables together
  bool shares_host_memory = false;     ///< the device works in the host's memory
  std::int64_t free_device_bytes = 0;  ///< left when all else has been placed, experts included
  std::int64_t free_host_bytes = 0;    ///< likewise, of memory that may be pinned
};

/// The nearest place with room, or the one that the user wants. A sentence where that has no room or is none.
/// A device that works in the host's memory reads the map, of which the system keeps what fits, unless the
/// user wants a copy in memory.
[[nodiscard]] Result<EngramPlace> choose_engram_place(EngramWish wish, const EngramRoom& room);

/// Of the host's memory so much is left to the system and to others.
inline constexpr double kShareOfHostForTables = 0.9;

}  // namespace baleen
