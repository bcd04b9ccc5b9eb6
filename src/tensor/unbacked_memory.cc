#include "tensor/unbacked_memory.h"

namespace baleen {

std::byte* UnbackedMemory::allocate(std::int64_t size_bytes) {
  constexpr std::uintptr_t kAlignment = 256;
  const std::uintptr_t address = next_;
  next_ += (static_cast<std::uintptr_t>(size_bytes) + kAlignment) / kAlignment * kAlignment;
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace baleen
