/// Addresses without memory: pools of any size, for who counts pages and never reads one.
#pragma once

#include "tensor/memory.h"

namespace baleen {

/// Reserves address space that nobody may read or write: the processor stops the program that tries. Copies are
/// accepted and do nothing.
class ImaginaryMemory final : public Memory {
 public:
  /// Throws `Error` when the address space has no room left (it has 128 TiB).
  [[nodiscard]] std::byte* allocate(std::int64_t size_bytes) override;
  void release(std::byte* data, std::int64_t size_bytes) noexcept override;
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  void copy(std::byte*, const std::byte*, std::int64_t) override {}
};

}  // namespace baleen
