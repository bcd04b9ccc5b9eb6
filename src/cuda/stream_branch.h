/// Work beside that of a stream.
#pragma once

#include "cuda/cuda_stream.h"

namespace baleen {

/// A second stream for the time between `fork` and `join`, one such time after the other. Where the first is
/// captured, so is this. A fork while it is open waits for both streams.
class StreamBranch {
 public:
  /// What is queued on the returned stream runs behind all that was queued on `stream` before, and beside
  /// what is queued there from now on.
  cudaStream_t fork(cudaStream_t stream) {
    forked_.record(stream);
    forked_.make_wait(stream_.get());
    is_open_ = true;
    return stream_.get();
  }
  /// What is queued on `stream` from now on runs behind the branch. Its first kernel must not start early
  /// (`LaunchShape::early`): that is promised of one predecessor, and it has two.
  void join(cudaStream_t stream) {
    joined_.record(stream_.get());
    joined_.make_wait(stream);
    is_open_ = false;
  }
  /// Where something is queued behind a join, what runs on it from now on is beside the stream again.
  cudaStream_t reopen() {
    is_open_ = true;
    return stream_.get();
  }
  /// Forked, not joined since.
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  bool is_open_ = false;
  CudaStream stream_{true};  // a few blocks that copy, for which others wait
  CudaEvent forked_{cudaEventDisableTiming}, joined_{cudaEventDisableTiming};
};

}  // namespace baleen
