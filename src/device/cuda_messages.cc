#include "device/cuda_messages.h"

#include <algorithm>

#include "cuda/full_order.h"

namespace baleen {
CudaMessages::~CudaMessages() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

void CudaMessages::post(int number, int num_units, const std::function<void()>& messages) {
  if (!beside_) return messages();
  const auto place = static_cast<std::size_t>(number);
  if (std::ranges::none_of(posted_, std::identity())) num_sms_ = context_.num_sms;
  struct Beside {
    CudaContext& context;
    CudaContext before;
    int sms_beside;
    ~Beside() {
      context.stream = before.stream;
      context.branch = before.branch;
      context.num_sms = sms_beside;
    }
  };
  const Beside beside{context_, context_, std::max(1, num_sms_ - num_units)};
  forked_.record(context_.stream);
  forked_.make_wait(stream_.get());
  context_.stream = stream_.get();
  context_.branch = nullptr;
  context_.num_sms = std::min(num_units, num_sms_);
  keep_full_order(stream_.get());
  messages();
  done_[place].record(stream_.get());
  posted_[place] = true;
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
