/// Memory of one CUDA device.
#pragma once

#include "tensor/memory.h"

struct CUstream_st;

namespace baleen {

/// Copies are ordered on `stream`, which must outlive this. The device must be current in the calling thread.
class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(CUstream_st* stream) : stream_(stream) {}

  std::byte* allocate(std::int64_t size_bytes) override;
  void release(std::byte* data, std::int64_t size_bytes) noexcept override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) override;

 private:
  CUstream_st* stream_;
};

/// Host memory that the device copies from and to at full speed, and without the host waiting. The processor's, to
/// everyone else.
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

}  // namespace baleen
