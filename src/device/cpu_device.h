/// The CPU: runs every operation at once, on a pool of threads, in the caller's memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "ops/matmul/int8_copies.h"
#include "ops/operation/variant_executor.h"

namespace baleen {

[[nodiscard]] DeviceTraits cpu_traits(int num_threads);

/// Notes wall time.
class ClockTimer final : public OperationTimer {
 public:
  explicit ClockTimer(OpProfile& profile) : profile_(profile) {}
  void begin() override { start_ = std::chrono::steady_clock::now(); }
  void end(std::string_view name, const OpCost& cost, CallTime* call) override {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    profile_.add(name, elapsed.count(), cost);
    if (call != nullptr) call->add(elapsed.count());
  }

 private:
  OpProfile& profile_;
  std::chrono::steady_clock::time_point start_;
};

class CpuDevice final : public Device {
 public:
  /// `scratch_bytes` covers the largest operation that will run; `variants` are those of all operations that
  /// will. Throws `Error` for a forced variant that there is not.
  CpuDevice(int num_threads, std::int64_t scratch_bytes, std::vector<ForcedVariant> forced,
            VariantTable<CpuContext> variants);
  /// The operations of the forward pass.
  CpuDevice(int num_threads, std::int64_t scratch_bytes, std::vector<ForcedVariant> forced = {});

  /// For collectives; null: there is one rank. `steps`: the ranks that have batches of their own in each
  /// step. Outlives this.
  void connect(Communicator* communicator, RankGroup steps = {}) {
    context_.communicator = communicator;
    batches_.agree(communicator, std::move(steps));
  }

  [[nodiscard]] std::string name() const override { return "this machine's memory"; }
  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] Memory& memory() override { return host_memory(); }
  [[nodiscard]] Memory& host_visible_memory() override { return host_memory(); }
  /// All there is: what others use can be reclaimed in part, and is resident only where touched.
  [[nodiscard]] std::int64_t free_bytes() const override;
  void synchronise() override {}
  [[nodiscard]] StepBatches& batches() override { return batches_; }
  [[nodiscard]] StepReplay& steps() override { return steps_; }
  [[nodiscard]] MessageLane& messages() override { return messages_; }
  [[nodiscard]] Executor& executor() override { return executor_; }
  /// The clock and the cost functions take a microsecond or two an operation.
  void set_profiling(bool on) override { executor_.set_timer(on ? &timer_ : nullptr); }
  [[nodiscard]] OpProfile& profile() override { return profile_; }
  void set_report(VariantReport* report) override { executor_.set_report(report); }
  [[nodiscard]] std::int64_t num_runs(std::string_view operation, std::string_view name) const override {
    return executor_.num_runs(operation, name);
  }

 private:
  DeviceTraits traits_;
  ThreadPool pool_;
  Arena scratch_;
  Int8Copies int8_copies_;
  CpuContext context_;
  HostBatches batches_;
  ImmediateSteps steps_;
  MessagesInOrder messages_;
  VariantExecutor<CpuContext> executor_;
  OpProfile profile_;
  ClockTimer timer_{profile_};
};

}  // namespace baleen
