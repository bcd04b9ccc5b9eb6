/// Memory of the host that counts what is taken of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/memory.h"

namespace baleen::test {

class CountedMemory final : public Memory {
 public:
  std::byte* allocate(std::int64_t size_bytes) override {
    num_bytes_ += size_bytes;
    return host_memory().allocate(size_bytes);
  }
  void release(std::byte* data, std::int64_t size_bytes) noexcept override {
    host_memory().release(data, size_bytes);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override { host_memory().upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { host_memory().download(to, from); }
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) override {
    host_memory().copy(to, from, size_bytes);
  }
  /// Of all allocations so far, released or not.
  [[nodiscard]] std::int64_t num_bytes() const { return num_bytes_; }

 private:
  std::int64_t num_bytes_ = 0;
};

}  // namespace baleen::test
