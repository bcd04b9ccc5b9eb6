/// What drives NVIDIA GPUs, whatever the architecture of their kernels.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/cuda/kernel_module.h"

namespace baleen {

class CudaModule final : public KernelModule {
 public:
  /// `architecture`: a name of the registry.
  CudaModule(std::string_view architecture, const GpuKernels& kernels)
      : KernelModule(kernels), architecture_(architecture_by_name(gpu_architectures(), architecture)) {}

  [[nodiscard]] std::string toolkit() const override;
  [[nodiscard]] std::string why_not_nccl() const override;
  [[nodiscard]] std::string why_not() const override;
  [[nodiscard]] bool can_access_memory(int gpu, int other) const override;
  [[nodiscard]] DeviceCeilings measure_ceilings(int gpu) const override;
  [[nodiscard]] std::shared_ptr<DevicePeers> peers_of_threads(
      std::span<const int> gpus, GpuMessages messages, std::chrono::milliseconds longest_wait) const override;
  [[nodiscard]] std::shared_ptr<DevicePeers> peers_of_processes(
      int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
      std::chrono::milliseconds longest_wait) const override;
  [[nodiscard]] std::shared_ptr<DevicePeers> peers_by_nccl(
      int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
      std::chrono::milliseconds longest_wait) const override;
  [[nodiscard]] std::unique_ptr<Device> make_device(int gpu, const DeviceOptions& options) const override;

 private:
  const GpuArchitecture& architecture_;
};

}  // namespace baleen
