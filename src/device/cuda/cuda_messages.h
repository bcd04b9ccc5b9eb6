/// Messages of a rank on a stream of their own. A step that is captured keeps them beside its other work.
#pragma once

#include <array>

#include "cuda/cuda_context.h"
#include "cuda/stream_place.h"
#include "device/message_lane.h"

namespace baleen {

/// While something is posted, the multiprocessors of the post are left to it: `context.num_sms` is less for
/// operations beside messages, and is that part for the messages themselves.
///
/// No two ranks can block each other: a kernel that exchanges proceeds with any one of its next blocks
/// resident, and one whose blocks wait for each other is as large as the multiprocessors that it was given,
/// so it waits for kernels that end and for nothing else. That holds for a rank that has its GPU to itself;
/// others keep the order of the calls.
class CudaMessages final : public MessageLane {
 public:
  /// `context` outlives this.
  explicit CudaMessages(CudaContext& context) : context_(context) {}
  CudaMessages(const CudaMessages&) = delete;
  CudaMessages& operator=(const CudaMessages&) = delete;
  /// Waits for what is posted.
  ~CudaMessages() override;

  void post(int number, int num_units, const std::function<void()>& messages) override;
  void join(int number) override;

  /// While it is off, everything keeps the order of the calls. Nothing is posted.
  void set_beside(bool on) { beside_ = on; }

 private:
  CudaContext& context_;
  bool beside_ = true;
  int num_sms_ = 0;  ///< what operations have where nothing is posted
  std::array<bool, kNumPosts> posted_{};
  CudaStream stream_{true};  // a few blocks for which other ranks wait
  StreamPlace forked_;
  std::array<StreamPlace, kNumPosts> done_;
};

}  // namespace baleen
