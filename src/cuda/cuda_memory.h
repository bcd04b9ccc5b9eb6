/// Memory of one CUDA device.
#pragma once

#include <cstdint>
#include <map>

#include "tensor/memory.h"

struct CUstream_st;

namespace baleen {

/// The driver's pieces of memory, all of them whole here: what another process opens is a whole piece, and
/// would begin elsewhere where an allocation were a part of one.
inline constexpr std::int64_t kDevicePageBytes = std::int64_t{2} << 20;

[[nodiscard]] constexpr std::int64_t whole_device_pages(std::int64_t size_bytes) {
  return (size_bytes + kDevicePageBytes - 1) / kDevicePageBytes * kDevicePageBytes;
}

/// Where allocations begin, and their bytes.
using CudaAllocations = std::map<std::byte*, std::int64_t>;

/// Copies are ordered on `stream`, which must outlive this. The device must be current in the calling thread.
class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(CUstream_st* stream) : stream_(stream) {}

  std::byte* allocate(std::int64_t size_bytes) override;
  void release(std::byte* data, std::int64_t size_bytes) noexcept override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) override;

  [[nodiscard]] const CudaAllocations& allocations() const { return allocations_; }

 private:
  CUstream_st* stream_;
  CudaAllocations allocations_;
};

/// Host memory that the device copies from and to at full speed, and without the host waiting. The
/// processor's, to everyone else.
class CudaPinnedMemory final : public Memory {
 public:
  std::byte* allocate(std::int64_t size_bytes) override;
  void release(std::byte* data, std::int64_t size_bytes) noexcept override;
  void upload(std::byte* to, std::span<const std::byte> from) override { host_memory().upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { host_memory().download(to, from); }
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) override {
    host_memory().copy(to, from, size_bytes);
  }
};

/// Such memory that outlives devices, as what several of them share does.
[[nodiscard]] Memory& pinned_host_memory();

}  // namespace baleen
