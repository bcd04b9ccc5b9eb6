/// An event for which streams wait, and what that says of the order of launches.
#pragma once

#include "cuda/cuda_stream.h"
#include "cuda/launch_stream.h"

namespace baleen {

class StreamPlace {
 public:
  /// What was queued on `stream` so far is in front of this place.
  void record(const LaunchStream& stream) {
    event_.record(stream);
    if (stream.order != nullptr) place_ = stream.order->place(stream);
  }
  /// What is queued on `stream` from now on is behind it.
  void make_wait(const LaunchStream& stream) {
    event_.make_wait(stream);
    if (stream.order != nullptr) stream.order->wait(stream, place_);
  }

 private:
  CudaEvent event_{cudaEventDisableTiming};
  LaunchOrder::Place place_;
};

}  // namespace baleen
