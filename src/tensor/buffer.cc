#include "tensor/buffer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace baleen {

Buffer::Buffer(std::int64_t size_bytes, Memory& memory) : memory_(&memory), size_bytes_(size_bytes) {
  BALEEN_CHECK_LE(0, size_bytes);
  if (size_bytes > 0) data_ = memory.allocate(size_bytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(other.memory_),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) memory_->release(data_, size_bytes_);
}

std::byte* Arena::allocate_bytes(std::int64_t count) {
  const std::int64_t rounded = bytes_for<std::byte>(count);
  BALEEN_CHECK_LE(used_bytes_ + rounded, buffer_.size_bytes());
  std::byte* piece = buffer_.data() + used_bytes_;
  used_bytes_ += rounded;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return piece;
}

}  // namespace baleen
