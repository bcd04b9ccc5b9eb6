/// One NVIDIA GPU. Operations are queued on a stream; steps of few rows are captured and replayed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/peer/peer_memory.h"
#include "cuda/cuda_context.h"
#include "cuda/cuda_memory.h"
#include "cuda/cuda_stream.h"
#include "cuda/stream_branch.h"
#include "device/cuda/cuda_batches.h"
#include "device/cuda/cuda_copies.h"
#include "device/cuda/cuda_messages.h"
#include "device/cuda/cuda_replay.h"
#include "device/cuda/gpu_kernels.h"
#include "device/device.h"
#include "device/make_device.h"
#include "ops/operation/variant_executor.h"

namespace baleen {

[[nodiscard]] DeviceCeilings measure_cuda_ceilings(const GpuKernels& kernels, int index);

/// Puts events around operations; their times are known once the stream has reached them.
class EventTimer final : public OperationTimer {
 public:
  EventTimer(CUstream_st* stream, OpProfile& profile) : stream_(stream), profile_(profile) {}
  void begin() override;
  void end(std::string_view name, const OpCost& cost, CallTime* call) override;
  /// The stream has reached all of them.
  void read();

 private:
  /// An operation whose events have not been read yet.
  struct Timed {
    std::string_view name;
    OpCost cost;
    CallTime* call;
    CudaEvent begin, end;
  };

  CUstream_st* stream_;
  OpProfile& profile_;
  std::optional<CudaEvent> begin_;
  std::vector<Timed> timed_;
};

/// One thread at a time; the GPU becomes its current one.
class CudaDevice final : public Device {
 public:
  /// GPU `index`, on which `kernels` run; `traits` are those of their architecture. Throws `Error` when the
  /// GPU has not what they want, or no room for scratch and batch, or there is no variant that is forced.
  CudaDevice(int index, const DeviceTraits& traits, const GpuKernels& kernels, const DeviceOptions& options);
  ~CudaDevice() override;

  /// For collectives with the GPUs of other ranks. `host`: for what their threads have to agree on, at the
  /// beginning of each step, among the ranks of `steps`, which have batches of their own; of one rank:
  /// nothing. Both outlive this.
  void connect(const PeerRank& peers, Communicator& host, RankGroup steps);

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] Memory& memory() override { return memory_; }
  [[nodiscard]] Memory& host_visible_memory() override { return pinned_host_memory(); }
  [[nodiscard]] BackgroundCopies* background_copies() override { return &copies_; }
  [[nodiscard]] std::int64_t free_bytes() const override;
  [[nodiscard]] std::string taken_memory() const override { return taken_memory_; }
  void share_memory() override {
    if (context_.peers != nullptr) context_.peers->share(memory_.allocations());
  }
  void check_messages() const override {
    if (context_.peers != nullptr) context_.peers->check();
  }
  void synchronise() override;
  [[nodiscard]] StepBatches& batches() override { return batches_; }
  [[nodiscard]] StepReplay& steps() override { return steps_; }
  [[nodiscard]] MessageLane& messages() override { return messages_; }
  /// The same, for what only a GPU's has.
  [[nodiscard]] CudaMessages& message_lane() { return messages_; }
  /// What its kernels may read early.
  [[nodiscard]] const LaunchOrder& launch_order() const { return order_; }
  [[nodiscard]] Executor& executor() override { return *executor_; }
  /// Profiled operations are queued one by one, with events around them: steps are not replayed meanwhile.
  void set_profiling(bool on) override;
  [[nodiscard]] OpProfile& profile() override;
  void set_report(VariantReport* report) override;
  [[nodiscard]] std::int64_t num_runs(std::string_view operation, std::string_view name) const override {
    return executor_->num_runs(operation, name);
  }

 private:
  int index_;
  std::string taken_memory_;  ///< what `taken_memory` says, since the start
  DeviceTraits traits_;
  GpuKernels kernels_;
  CudaStream stream_;
  CudaMemory memory_;
  CudaPinnedMemory pinned_memory_;
  CudaCopies copies_;
  StreamBranch branch_;
  LaunchOrder order_{stream_.get()};
  Arena scratch_;
  CudaContext context_;
  CudaBatches batches_;
  CudaReplay steps_;
  CudaMessages messages_;
  std::vector<ForcedVariant> forced_variants_;
  std::optional<VariantExecutor<CudaContext>> executor_;  ///< another one once the GPU is connected by NCCL
  OpProfile profile_;
  EventTimer timer_;
  void choose_order();

  /// Messages may wait for others beside operations. Ranks that share a GPU must not hold multiprocessors
  /// while they wait, and NCCL takes those that it wants.
  bool can_wait_beside_ = true;
  bool profiling_ = false;
  bool reporting_ = false;
};

}  // namespace baleen
