/// How quickly a device is given what lies in the host's memory.
#pragma once

namespace baleen {

class Device;

/// Bytes a second of copies from pinned memory, the median of five of 256 MB; 0 where the device works in the
/// host's memory, or has no room for them.
[[nodiscard]] double measured_link_rate(Device& device);

}  // namespace baleen
