#include <sys/mman.h>

#include <cstring>

#include "base/error.h"
#include "tensor/memory.h"

namespace baleen {
namespace {

class HostMemory final : public Memory {
 public:
  std::byte* allocate(std::int64_t size_bytes) override {
    void* address = ::mmap(nullptr, static_cast<std::size_t>(size_bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      fail("cannot get {:.1f} MB of memory from the system; try a smaller context or fewer tokens a step",
           static_cast<double>(size_bytes) / 1e6);
    }
    return static_cast<std::byte*>(address);
  }
  void release(std::byte* data, std::int64_t size_bytes) noexcept override {
    ::munmap(data, static_cast<std::size_t>(size_bytes));
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  void copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
  }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace baleen
