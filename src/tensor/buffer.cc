#include "tensor/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace baleen {

Buffer::Buffer(std::int64_t size_bytes) : size_bytes_(size_bytes) {
  BALEEN_CHECK_LE(0, size_bytes);
  if (size_bytes == 0) return;
  void* address = ::mmap(nullptr, static_cast<std::size_t>(size_bytes), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    fail("cannot get {:.1f} MB of memory from the system; try a smaller context or fewer tokens a step",
         static_cast<double>(size_bytes) / 1e6);
  }
  data_ = static_cast<std::byte*>(address);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(size_bytes_));
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
