/// Copies on a stream of their own.
#pragma once

#include <array>

#include "cuda/cuda_stream.h"
#include "device/background_copies.h"

namespace baleen {

class CudaCopies final : public BackgroundCopies {
 public:
  /// `operations`: the stream of the device, which must outlive this.
  explicit CudaCopies(cudaStream_t operations) : operations_(operations), queued_(cudaEventDisableTiming) {}
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;
  ~CudaCopies() override;

  void wait_for_operations() override;
  void start(std::byte* to, const std::byte* from, std::int64_t size_bytes) override;
  void set_mark(int mark) override;
  void make_operations_wait_for(int mark) override;
  void wait_for(int mark) override;

 private:
  cudaStream_t operations_;
  CudaStream stream_;
  CudaEvent queued_;
  std::array<CudaEvent, kNumMarks> marks_;
};

}  // namespace baleen
