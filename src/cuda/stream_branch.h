/// Work beside that of a stream.
#pragma once

#include "cuda/cuda_stream.h"

namespace baleen {

/// A second stream for the time between `fork` and `join`, one such time after the other. Where the first is
/// captured, so is this.
class StreamBranch {
 public:
  /// What is queued on the returned stream runs behind all that was queued on `stream` before, and beside
  /// what is queued there from now on.
  [[nodiscard]] cudaStream_t fork(cudaStream_t stream) {
    forked_.record(stream);
    forked_.make_wait(stream_.get());
    return stream_.get();
  }
  /// What is queued on `stream` from now on runs behind the branch. Its first kernel must not start early
  /// (`LaunchShape::early`): that is promised of one predecessor, and it has two.
  void join(cudaStream_t stream) {
    joined_.record(stream_.get());
    joined_.make_wait(stream);
  }

 private:
  CudaStream stream_;
  CudaEvent forked_{cudaEventDisableTiming}, joined_{cudaEventDisableTiming};
};

}  // namespace baleen
