/// A device that computes nothing, for those who bring an executor to see what a pass would run.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/device.h"
#include "tensor/unbacked_memory.h"

namespace baleen {

/// Its memory is addresses alone; steps run at once, as wholes, and messages in order.
class UnbackedDevice : public Device {
 public:
  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] Memory& memory() override { return memory_; }
  [[nodiscard]] Memory& host_visible_memory() override { return memory_; }
  [[nodiscard]] std::int64_t free_bytes() const override { return std::int64_t{1} << 62; }
  void synchronise() override {}
  [[nodiscard]] StepBatches& batches() override { return batches_; }
  [[nodiscard]] StepReplay& steps() override { return steps_; }
  [[nodiscard]] MessageLane& messages() override { return messages_; }
  void set_profiling(bool /*on*/) override {}
  [[nodiscard]] OpProfile& profile() override { return profile_; }
  void set_report(VariantReport* /*report*/) override {}
  [[nodiscard]] std::int64_t num_runs(std::string_view /*operation*/,
                                      std::string_view /*name*/) const override {
    return 0;
  }

 protected:
  explicit UnbackedDevice(const DeviceTraits& traits) : traits_(traits) {}

 private:
  DeviceTraits traits_;
  UnbackedMemory memory_;
  HostBatches batches_;
  ImmediateSteps steps_;
  MessagesInOrder messages_;
  OpProfile profile_;
};

}  // namespace baleen
