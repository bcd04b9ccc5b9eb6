#include "cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda/cuda_error.h"

namespace baleen {

std::byte* CudaMemory::allocate(std::int64_t size_bytes) {
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
        "them "
        "(nvidia-smi shows whose they are); else try a smaller --context, --chunk or --max-sequences",
        1e-9 * static_cast<double>(size_bytes), 1e-9 * static_cast<double>(free_bytes),
        1e-9 * static_cast<double>(total_bytes));
  }
  check_cuda(cudaMemsetAsync(data, 0, static_cast<std::size_t>(size_bytes), stream_),
             "clearing device memory");
  return static_cast<std::byte*>(data);
}

void CudaMemory::release(std::byte* data, std::int64_t /*size_bytes*/) noexcept {
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
  void* data = nullptr;
  check_cuda(cudaMallocHost(&data, static_cast<std::size_t>(size_bytes)), "getting pinned host memory");
  std::memset(data, 0, static_cast<std::size_t>(size_bytes));
  return static_cast<std::byte*>(data);
}

void CudaPinnedMemory::release(std::byte* data, std::int64_t /*size_bytes*/) noexcept {
  static_cast<void>(cudaFreeHost(data));
}

}  // namespace baleen
