/// Owners of a stream and of an event.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/cuda_error.h"

namespace baleen {

/// A queue of work of its own on the current device.
class CudaStream {
 public:
  CudaStream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  /// `urgent`: its kernels get multiprocessors before those of other streams.
  explicit CudaStream(bool urgent) {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
               "making a stream");
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A place in a stream, with the time when it was reached. Movable.
class CudaEvent {
 public:
  CudaEvent() : CudaEvent(cudaEventDefault) {}
  explicit CudaEvent(unsigned flags) {
    check_cuda(cudaEventCreateWithFlags(&event_, flags), "making an event");
  }
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "recording an event"); }
  /// What is queued on `stream` from now on waits until this is reached.
  void make_wait(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_), "making a stream wait");
  }
  void wait() const { check_cuda(cudaEventSynchronize(event_), "waiting for the GPU"); }
  /// Both recorded and reached.
  [[nodiscard]] double seconds_until(const CudaEvent& end) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, event_, end.event_), "reading a time");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace baleen
