#include "simulator/serving/imaginary_memory.h"

#include <sys/mman.h>

#include "base/error.h"

namespace baleen {

std::byte* ImaginaryMemory::allocate(std::int64_t size_bytes) {
  void* const addresses = ::mmap(nullptr, static_cast<std::size_t>(size_bytes), PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) {
    fail("the simulated cache has {:.1f} GB, which this machine cannot even address; simulate a smaller one",
         1e-9 * static_cast<double>(size_bytes));
  }
  return static_cast<std::byte*>(addresses);
}

void ImaginaryMemory::release(std::byte* data, std::int64_t size_bytes) noexcept {
  ::munmap(data, static_cast<std::size_t>(size_bytes));
}

}  // namespace baleen
