#include "engram/engram_place.h"

#include "base/size_text.h"

namespace baleen {

std::string_view engram_place_name(EngramPlace place) {
  switch (place) {
    case EngramPlace::kDevice:
      return "the GPU's memory";
    case EngramPlace::kHost:
      return "the host's memory";
    case EngramPlace::kMapped:
      return "the file's map";
    case EngramPlace::kDisk:
      return "disk";
  }
  return "?";
}

Result<EngramPlace> choose_engram_place(EngramWish wish, const EngramRoom& room) {
  const bool fits_device = room.table_bytes <= room.free_device_bytes;
  const bool fits_host = static_cast<double>(room.table_bytes) <=
                         kShareOfHostForTables * static_cast<double>(room.free_host_bytes);
  switch (wish) {
    case EngramWish::kGpu:
      if (room.shares_host_memory)
        return failure("‹Engram tables› in a GPU's memory: the CPU computes; try host or disk");
      if (fits_device) return EngramPlace::kDevice;
      return failure(
          "the Engram tables take {}, where {} of the GPU's memory are left beside weights and cache; try "
          "‹Engram tables› host or disk",
          size_text(room.table_bytes), size_text(room.free_device_bytes));
    case EngramWish::kHost:
      if (fits_host) return EngramPlace::kHost;
      return failure(
          "the Engram tables take {}, where {} of the host's memory are free; try ‹Engram tables› disk",
          size_text(room.table_bytes), size_text(room.free_host_bytes));
    case EngramWish::kDisk:
      break;
    case EngramWish::kAuto:
      if (room.shares_host_memory) break;
      if (fits_device) return EngramPlace::kDevice;
      if (fits_host) return EngramPlace::kHost;
      break;
  }
  return room.shares_host_memory ? EngramPlace::kMapped : EngramPlace::kDisk;
}

}  // namespace baleen
