/// Work beside that of a stream.
#pragma once

#include "cuda/stream_place.h"

namespace baleen {

/// A second stream for the time between `fork` and `join`, one such time after the other. Where the first is
/// captured, so is this. A fork while it is open waits for both streams.
class StreamBranch {
 public:
  /// What is queued on the returned stream runs behind all that was queued on `stream` before, and beside
  /// what is queued there from now on.
  LaunchStream fork(const LaunchStream& stream) {
    branch_ = {stream_.get(), stream.order, stream.starts_early};
    forked_.record(stream);
    forked_.make_wait(branch_);
    is_open_ = true;
    return branch_;
  }
  /// What is queued on `stream` from now on runs behind the branch. Its first kernel must not start early
  /// (`LaunchShape::early`): that is promised of one predecessor, and it has two.
  void join(const LaunchStream& stream) {
    joined_.record(branch_);
    joined_.make_wait(stream);
    is_open_ = false;
  }
  /// Where something is queued behind a join, what runs on it from now on is beside the stream again.
  LaunchStream reopen() {
    is_open_ = true;
    return branch_;
  }
  /// Forked, not joined since.
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  bool is_open_ = false;
  CudaStream stream_{true};  // a few blocks that copy, for which others wait
  LaunchStream branch_;      // of that stream; from the first fork on
  StreamPlace forked_, joined_;
};

}  // namespace baleen
