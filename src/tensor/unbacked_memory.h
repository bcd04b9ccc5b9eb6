/// Addresses without memory behind them: for arrays whose shapes count and whose contents are never read.
#pragma once

#include "tensor/memory.h"

namespace baleen {

/// Every allocation gets addresses of its own, none of which may be read or written; copies do nothing. Not
/// thread-safe.
class UnbackedMemory final : public Memory {
 public:
  [[nodiscard]] std::byte* allocate(std::int64_t size_bytes) override;
  void release(std::byte* /*data*/, std::int64_t /*size_bytes*/) noexcept override {}
  void upload(std::byte* /*to*/, std::span<const std::byte> /*from*/) override {}
  void download(std::span<std::byte> /*to*/, const std::byte* /*from*/) override {}
  void copy(std::byte* /*to*/, const std::byte* /*from*/, std::int64_t /*size_bytes*/) override {}

 private:
  /// Where no program has memory: using an address by mistake stops it at once.
  std::uintptr_t next_ = std::uintptr_t{1} << 56;
};

}  // namespace baleen
