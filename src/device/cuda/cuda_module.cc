#include "device/cuda/cuda_module.h"

#include <cuda_runtime_api.h>

#include "base/check.h"
#include "base/error.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/peer/peer_memory.h"
#include "comm/peer/peer_process.h"
#include "device/cuda/cuda_device.h"
#include "device/gpu_driver.h"

namespace baleen {
namespace {

class PeersOfThreads final : public DevicePeers {
 public:
  PeersOfThreads(std::span<const int> gpus, MessageMemory place, std::chrono::milliseconds longest_wait)
      : memory_(gpus, longest_wait, place) {}
  [[nodiscard]] const PeerRank* rank(std::int64_t rank) const override { return &memory_.rank(rank); }

 private:
  PeerMemory memory_;
};

class PeersOfProcesses final : public DevicePeers {
 public:
  PeersOfProcesses(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
                   std::chrono::milliseconds longest_wait)
      : process_(gpu, rank, num_ranks, host, longest_wait) {}
  [[nodiscard]] const PeerRank* rank(std::int64_t /*rank*/) const override { return &process_.rank(); }
  void leave() override { process_.close(); }

 private:
  PeerProcess process_;
};

class PeersByNccl final : public DevicePeers {
 public:
  PeersByNccl(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
              std::chrono::milliseconds longest_wait)
      : nccl_(gpu, rank, num_ranks, host, longest_wait), rank_(nccl_) {}
  [[nodiscard]] const PeerRank* rank(std::int64_t /*rank*/) const override { return &rank_; }

 private:
  NcclRank nccl_;
  PeerRank rank_;
};

}  // namespace

std::string CudaModule::toolkit() const { return cuda_version_text(CUDART_VERSION); }

std::string CudaModule::why_not_nccl() const { return why_not_nccl_library(); }

std::string CudaModule::why_not() const {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  return status == cudaSuccess ? "" : fmt::format("CUDA says '{}'", cudaGetErrorString(status));
}

bool CudaModule::can_access_memory(int gpu, int other) const { return baleen::can_access_memory(gpu, other); }

DeviceCeilings CudaModule::measure_ceilings(int gpu) const { return measure_cuda_ceilings(kernels(), gpu); }

std::shared_ptr<DevicePeers> CudaModule::peers_of_threads(std::span<const int> gpus, GpuMessages messages,
                                                          std::chrono::milliseconds longest_wait) const {
  const MessageMemory place =
      messages == GpuMessages::kHostMemory ? MessageMemory::kHost : MessageMemory::kDevices;
  return std::make_shared<PeersOfThreads>(gpus, place, longest_wait);
}

std::shared_ptr<DevicePeers> CudaModule::peers_of_processes(int gpu, std::int64_t rank,
                                                            std::int64_t num_ranks, Communicator& host,
                                                            std::chrono::milliseconds longest_wait) const {
  return std::make_shared<PeersOfProcesses>(gpu, rank, num_ranks, host, longest_wait);
}

std::shared_ptr<DevicePeers> CudaModule::peers_by_nccl(int gpu, std::int64_t rank, std::int64_t num_ranks,
                                                       Communicator& host,
                                                       std::chrono::milliseconds longest_wait) const {
  return std::make_shared<PeersByNccl>(gpu, rank, num_ranks, host, longest_wait);
}

std::unique_ptr<Device> CudaModule::make_device(int gpu, const DeviceOptions& options) const {
  auto device = std::make_unique<CudaDevice>(gpu, architecture_.traits, kernels(), options);
  if (const DeviceConnection& to = options.connection; to.communicator != nullptr) {
    BALEEN_CHECK(to.peers != nullptr);
    device->connect(*to.peers, *to.communicator, to.steps);
  }
  return device;
}

}  // namespace baleen
