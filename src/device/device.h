/// A device: memory, and what works in it. The forward pass is written once against this interface; the CPU
/// runs operations at once, a GPU queues them, the simulator's recorder only writes them down. It is made of
/// four parts that know nothing of each other: one brings batches, one executes operations, one repeats
/// steps, one has messages run beside other work.
#pragma once

#include <cstdint>
#include <string>

#include "device/background_copies.h"
#include "device/message_lane.h"
#include "device/op_profile.h"
#include "device/step_batches.h"
#include "device/step_replay.h"
#include "ops/operation/device_traits.h"
#include "ops/operation/executor.h"
#include "ops/operation/variant_report.h"
#include "tensor/memory.h"

namespace baleen {

/// Operations take effect in the order of the calls, but for messages that are posted. Arguments must stay
/// valid until they have.
class Device {
 public:
  virtual ~Device() = default;

  /// For people: "this machine's memory", "NVIDIA H200 (cuda:0)".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual const DeviceTraits& traits() const = 0;
  /// Where operations want their arrays.
  [[nodiscard]] virtual Memory& memory() = 0;
  /// Memory of the host that this device copies to and from at full speed, and others of its kind. What lies
  /// there may outlive the device.
  [[nodiscard]] virtual Memory& host_visible_memory() = 0;
  /// Null where the host's memory is the device's.
  [[nodiscard]] virtual BackgroundCopies* background_copies() { return nullptr; }
  /// Of `memory`, at the moment.
  [[nodiscard]] virtual std::int64_t free_bytes() const = 0;
  /// What is to be said where `memory` runs out: how much of it others have. Empty: nothing.
  [[nodiscard]] virtual std::string taken_memory() const { return {}; }
  /// Lets ranks in other processes reach what `memory` has given so far; all ranks call it.
  virtual void share_memory() {}
  /// Throws where operations that have taken effect exchanged data with a rank that did not come: their
  /// results are void.
  virtual void check_messages() const {}
  /// Waits until all operations have taken effect. Throws what went wrong in them.
  virtual void synchronise() = 0;

  [[nodiscard]] virtual StepBatches& batches() = 0;
  [[nodiscard]] virtual StepReplay& steps() = 0;
  [[nodiscard]] virtual MessageLane& messages() = 0;
  [[nodiscard]] virtual Executor& executor() = 0;

  /// `executor().execute`, which says what the arguments are.
  template <class... Ops>
  void execute(const typename Ops::Args&... args) {
    executor().execute<Ops...>(args...);
  }

  /// Times and costs by operation. Off by default, as it makes a step slower.
  virtual void set_profiling(bool on) = 0;
  [[nodiscard]] virtual OpProfile& profile() = 0;
  /// Notes which variants were chosen, and why; null: nothing. Steps are not replayed meanwhile.
  virtual void set_report(VariantReport* report) = 0;
  /// How often the variant `name` was called as `operation` or fusion. A replayed step calls none.
  [[nodiscard]] virtual std::int64_t num_runs(std::string_view operation, std::string_view name) const = 0;
};

}  // namespace baleen
