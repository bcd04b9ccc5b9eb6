/// The largest step that a device replays. Kernels of steps up to it must not look at the batch on the host: it is another one
/// at each replay.
#pragma once

#include <cstdint>

namespace baleen {

inline constexpr std::int64_t kMaxReplayedRows = 256;

}  // namespace baleen
