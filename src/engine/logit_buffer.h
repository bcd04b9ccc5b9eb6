/// Memory that a plan reserves for steps; logits of their rows there, and where the host reads them.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "engine/device_model.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"

namespace baleen {

/// Just as much as the model's plan says.
struct StepArenas {
  explicit StepArenas(const DeviceModel& model);

  Arena device;  ///< activations and logits
  Arena host;    ///< that the device reaches, for copies of logits where the host does not read the device's
};

class LogitBuffer {
 public:
  /// [num_rows, V] on the device, and on the host once more where it does not read the device's memory. All
  /// of them outlive this.
  LogitBuffer(std::int64_t num_rows, const DeviceModel& model, StepArenas& arenas);

  [[nodiscard]] const Activations<2>& all() const { return logits_; }
  [[nodiscard]] Activations<2> first_rows(std::int64_t num_rows) const { return logits_.slice(0, num_rows); }
  /// `logits`, some of these rows, once the device has them. Valid until they are written again, or the next
  /// call.
  [[nodiscard]] ConstActivations<2> read(const Activations<2>& logits);

 private:
  Device& device_;
  Activations<2> logits_;
  float* host_copy_;  ///< null where the host reads the device's memory
};

}  // namespace baleen
