/// Owning memory, zeroed and aligned to 256 bytes at least.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/memory.h"

namespace baleen {

class Buffer {
 public:
  Buffer() = default;
  /// Throws `Error` when `memory`, which must outlive the buffer, has no more. Zero bytes is an empty buffer.
  explicit Buffer(std::int64_t size_bytes, Memory& memory = host_memory());
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] Memory& memory() const { return *memory_; }

 private:
  Memory* memory_ = &host_memory();
  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
};

/// Hands out 256-byte aligned pieces of a buffer one after the other; `reset` takes all of them back.
/// Sized once by whoever plans; running over is a bug in the plan and stops the program.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::int64_t size_bytes, Memory& memory = host_memory()) : buffer_(size_bytes, memory) {}

  template <class T>
  [[nodiscard]] T* allocate(std::int64_t count) {
    return reinterpret_cast<T*>(allocate_bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }
  void reset() { used_bytes_ = 0; }
  /// Everything allocated after `mark` was read is taken back by `release(mark)`.
  [[nodiscard]] std::int64_t mark() const { return used_bytes_; }
  void release(std::int64_t mark) { used_bytes_ = mark; }
  [[nodiscard]] std::int64_t size_bytes() const { return buffer_.size_bytes(); }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] Memory& memory() const { return buffer_.memory(); }

  /// What `allocate<T>(count)` takes from the arena.
  template <class T>
  [[nodiscard]] static constexpr std::int64_t bytes_for(std::int64_t count) {
    return (count * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  static constexpr std::int64_t kAlignment = 256;

  std::byte* allocate_bytes(std::int64_t count);

  Buffer buffer_;
  std::int64_t used_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace baleen
