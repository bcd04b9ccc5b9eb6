#include "engine/logit_buffer.h"

#include <span>

namespace baleen {

StepArenas::StepArenas(const DeviceModel& model)
    : device(model.plan().activation_bytes + model.plan().logit_bytes, model.device().memory()),
      host(model.plan().host_logit_bytes, model.device().host_visible_memory()) {}

LogitBuffer::LogitBuffer(std::int64_t num_rows, const DeviceModel& model, StepArenas& arenas)
    : device_(model.device()),
      logits_(arenas.device.allocate<float>(num_rows * model.config().vocab_size),
              {num_rows, model.config().vocab_size}),
      host_copy_(device_.traits().shares_host_memory ? nullptr
                                                     : arenas.host.allocate<float>(logits_.size())) {}

ConstActivations<2> LogitBuffer::read(const Activations<2>& logits) {
  if (host_copy_ == nullptr) return logits;
  const std::span<float> copy(host_copy_, static_cast<std::size_t>(logits.size()));
  device_.memory().download(std::as_writable_bytes(copy), logits.address());
  device_.check_messages();
  return {host_copy_, logits.extents()};
}

}  // namespace baleen
