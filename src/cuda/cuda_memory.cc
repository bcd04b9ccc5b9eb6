#include "cuda/cuda_memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cuda/cuda_error.h"
#include "parallel/thread_pool.h"

namespace baleen {
namespace {

/// From here on pinned memory is mapped, touched by several threads, then pinned: one thread of the driver
/// clears and pins a few gigabytes a second, and an expert store takes up to 100.
constexpr std::int64_t kRegisteredBytes = std::int64_t{1} << 30;
constexpr std::int64_t kTouchedBytes = std::int64_t{64} << 20;  ///< what a thread touches at a time
constexpr std::int64_t kSmallestPageBytes = 4096;

/// The system gives zeroed pages where they are touched first.
void touch_pages(std::byte* data, std::int64_t size_bytes) {
  ThreadPool pool(default_num_threads());
  pool.parallel_for((size_bytes + kTouchedBytes - 1) / kTouchedBytes, [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(size_bytes, (piece + 1) * kTouchedBytes);
    for (std::int64_t at = piece * kTouchedBytes; at < end; at += kSmallestPageBytes) data[at] = std::byte{0};
  });
}

std::byte* register_pages(std::int64_t size_bytes) {
  const auto size = static_cast<std::size_t>(size_bytes);
  const auto refuse = [&](const char* why) {
    fail(
        "cannot pin {:.2f} GB of host memory: {}. What the host has beside the page cache (free -g) must "
        "hold "
        "them, and `ulimit -l` allow them",
        1e-9 * static_cast<double>(size_bytes), why);
  };
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) refuse(std::strerror(errno));
  static_cast<void>(madvise(data, size, MADV_HUGEPAGE));  // fewer pages to pin; without, it is slower
  touch_pages(static_cast<std::byte*>(data), size_bytes);
  if (const cudaError_t status = cudaHostRegister(data, size, cudaHostRegisterPortable);
      status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    static_cast<void>(munmap(data, size));
    refuse(cudaGetErrorString(status));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

std::byte* CudaMemory::allocate(std::int64_t size_bytes) {
  size_bytes = whole_device_pages(size_bytes);
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(size_bytes));
      status != cudaSuccess) {
    std::size_t free_bytes = 0, total_bytes = 0;
    if (status != cudaErrorMemoryAllocation || cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
      check_cuda(status, "allocating device memory");
    }
    static_cast<void>(cudaGetLastError());
    fail(
        "cannot get {:.2f} GB of device memory: {:.2f} of {:.2f} GB are free. Another process may have taken "
        "them (nvidia-smi shows whose they are); else try a smaller ‹context›, ‹chunk› or ‹sequences›",
        1e-9 * static_cast<double>(size_bytes), 1e-9 * static_cast<double>(free_bytes),
        1e-9 * static_cast<double>(total_bytes));
  }
  check_cuda(cudaMemsetAsync(data, 0, static_cast<std::size_t>(size_bytes), stream_),
             "clearing device memory");
  allocations_.emplace(static_cast<std::byte*>(data), size_bytes);
  return static_cast<std::byte*>(data);
}

void CudaMemory::release(std::byte* data, std::int64_t /*size_bytes*/) noexcept {
  allocations_.erase(data);
  static_cast<void>(cudaFree(data));  // fails only after a sticky error, which was reported
}

void CudaMemory::upload(std::byte* to, std::span<const std::byte> from) {
  check_cuda(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
             "copying to the device");
  check_cuda(cudaStreamSynchronize(stream_), "copying to the device");
}

void CudaMemory::download(std::span<std::byte> to, const std::byte* from) {
  check_cuda(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_),
             "copying from the device");
  check_cuda(cudaStreamSynchronize(stream_), "copying from the device");
}

void CudaMemory::copy(std::byte* to, const std::byte* from, std::int64_t size_bytes) {
  check_cuda(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_bytes), cudaMemcpyDeviceToDevice, stream_),
      "copying on the device");
}

std::byte* CudaPinnedMemory::allocate(std::int64_t size_bytes) {
  if (size_bytes >= kRegisteredBytes) return register_pages(size_bytes);
  void* data = nullptr;
  check_cuda(cudaMallocHost(&data, static_cast<std::size_t>(size_bytes)), "getting pinned host memory");
  std::memset(data, 0, static_cast<std::size_t>(size_bytes));
  return static_cast<std::byte*>(data);
}

void CudaPinnedMemory::release(std::byte* data, std::int64_t size_bytes) noexcept {
  if (size_bytes < kRegisteredBytes) return static_cast<void>(cudaFreeHost(data));
  static_cast<void>(cudaHostUnregister(data));
  static_cast<void>(munmap(data, static_cast<std::size_t>(size_bytes)));
}

Memory& pinned_host_memory() {
  static CudaPinnedMemory memory;
  return memory;
}

}  // namespace baleen
