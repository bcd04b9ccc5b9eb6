#include "device/cuda/cuda_messages.h"

#include <algorithm>

#include "cuda/full_order.h"

namespace baleen {
namespace {

/// What a post changes of a context, put back as it was.
struct Restored {
  CudaContext& context;
  CudaContext before;
  ~Restored() {
    context.stream = before.stream;
    context.branch = before.branch;
    context.num_sms = before.num_sms;
  }
};

}  // namespace

CudaMessages::~CudaMessages() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

void CudaMessages::post(int number, int num_units, const std::function<void()>& messages) {
  if (!beside_) return messages();
  const auto place = static_cast<std::size_t>(number);
  if (std::ranges::none_of(posted_, std::identity())) num_sms_ = context_.num_sms;
  const LaunchStream lane{stream_.get(), context_.stream.order, context_.stream.starts_early};
  forked_.record(context_.stream);
  forked_.make_wait(lane);
  keep_full_order(lane);
  {
    const Restored restored{context_, context_};
    context_.stream = lane;
    context_.branch = nullptr;
    context_.num_sms = std::min(num_units, num_sms_);
    messages();
  }
  done_[place].record(lane);
  posted_[place] = true;
  context_.num_sms = std::max(1, num_sms_ - num_units);
}

void CudaMessages::join(int number) {
  const auto place = static_cast<std::size_t>(number);
  if (!posted_[place]) return;
  done_[place].make_wait(context_.stream);
  keep_full_order(context_.stream);
  posted_[place] = false;
  if (std::ranges::none_of(posted_, std::identity())) context_.num_sms = num_sms_;
}

}  // namespace baleen
