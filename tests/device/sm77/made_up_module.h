/// In place of `CudaModule`, for an architecture of which there is no GPU.
#pragma once

#include "base/error.h"
#include "device/cuda/kernel_module.h"

namespace baleen {

class MadeUpModule final : public KernelModule {
 public:
  using KernelModule::KernelModule;

  [[nodiscard]] std::string toolkit() const override { return "13.0"; }
  [[nodiscard]] std::string why_not_nccl() const override { return kNone; }
  [[nodiscard]] std::string why_not() const override { return {}; }
  [[nodiscard]] bool can_access_memory(int /*gpu*/, int /*other*/) const override { return false; }
  [[nodiscard]] DeviceCeilings measure_ceilings(int /*gpu*/) const override {
    const GpuLimits limits = kernels().measure_limits(nullptr, 8);
    return {.name = "Made-up 1000",
            .bytes_per_second = limits.copy_bytes_per_second,
            .bf16_flops_per_second = limits.bf16_flops_per_second,
            .fp8_flops_per_second = limits.fp8_flops_per_second};
  }
  [[nodiscard]] std::shared_ptr<DevicePeers> peers_of_threads(
      std::span<const int> /*gpus*/, GpuMessages /*messages*/,
      std::chrono::milliseconds /*longest_wait*/) const override {
    fail("{}", kNone);
  }
  [[nodiscard]] std::shared_ptr<DevicePeers> peers_of_processes(
      int /*gpu*/, std::int64_t /*rank*/, std::int64_t /*num_ranks*/, Communicator& /*host*/,
      std::chrono::milliseconds /*longest_wait*/) const override {
    fail("{}", kNone);
  }
  [[nodiscard]] std::shared_ptr<DevicePeers> peers_by_nccl(
      int /*gpu*/, std::int64_t /*rank*/, std::int64_t /*num_ranks*/, Communicator& /*host*/,
      std::chrono::milliseconds /*longest_wait*/) const override {
    fail("{}", kNone);
  }
  [[nodiscard]] std::unique_ptr<Device> make_device(int /*gpu*/,
                                                    const DeviceOptions& /*options*/) const override {
    fail("{}", kNone);
  }

 private:
  static constexpr const char* kNone = "no GPU is made up";
};

}  // namespace baleen
