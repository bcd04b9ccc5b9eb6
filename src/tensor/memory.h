/// Where arrays live: the processor's memory, or a device's. Operations of a device work on arrays in its own
/// memory; whoever fills or reads one from outside asks the memory to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baleen {

/// Copies take effect in the order of the calls, and in order with the operations of the device; `upload` and
/// `download` have happened when they return.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Zeroed, and aligned to 256 bytes at least. Throws `Error` when there is no more.
  [[nodiscard]] virtual std::byte* allocate(std::int64_t size_bytes) = 0;
  virtual void release(std::byte* data, std::int64_t size_bytes) noexcept = 0;

  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  /// Within this memory; the ranges do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) = 0;
};

/// Pages straight from the operating system: resident only where touched.
[[nodiscard]] Memory& host_memory();

}  // namespace baleen
