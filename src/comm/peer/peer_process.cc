#include "comm/peer/peer_process.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "base/error.h"
#include "comm/hosts.h"
#include "comm/meet.h"
#include "cuda/cuda_error.h"
#include "cuda/gpu_identity.h"

namespace baleen {
namespace {

/// The GPU's number in this process; -1: not visible.
int visible_gpu(const GpuIdentity& identity) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting GPUs");
  for (int gpu = 0; gpu < count; ++gpu) {
    if (gpu_identity(gpu) == identity) return gpu;
  }
  return -1;
}

}  // namespace

struct PeerProcess::Introduction {
  HostIdentity host;
  GpuIdentity gpu;
  cudaIpcMemHandle_t region;
};

struct PeerProcess::SharedRanges {
  struct Range {
    std::uint64_t begin, end;
    cudaIpcMemHandle_t handle;
  };
  std::int64_t count;
  Range ranges[kMaxPeerRanges];
};

PeerProcess::PeerProcess(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
                         std::chrono::milliseconds longest_wait)
    : ranks_(static_cast<std::size_t>(num_ranks)), rank_(rank), gpu_(gpu), host_(host) {
  if (num_ranks > kMaxPeers) fail("{} ranks: at most {} exchange data on one host", num_ranks, kMaxPeers);
  check_cuda(cudaSetDevice(gpu), "selecting the GPU");
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].all_ = &ranks_;
    ranks_[i].rank_ = static_cast<std::int64_t>(i);
    ranks_[i].process_ = this;
  }
  PeerRank& own = ranks_[static_cast<std::size_t>(rank)];
  own.gpu_ = gpu;
  own.longest_wait_ = longest_wait;
  try {
    own.open_region(num_ranks);
    Introduction introduction{.host = host_identity(), .gpu = gpu_identity(gpu), .region = {}};
    check_cuda(cudaIpcGetMemHandle(&introduction.region, own.region_), "sharing memory with other processes");
    const std::vector<Introduction> all = tell_all(host_, everybody(), introduction);
    check_others(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto other = static_cast<std::int64_t>(i);
      if (other != rank_) ranks_[i].region_ = open(&all[i].region);
    }
  } catch (...) {
    close_others();
    own.close_region();
    throw;
  }
}

PeerProcess::~PeerProcess() {
  close_others();
  ranks_[static_cast<std::size_t>(rank_)].close_region();
}

void PeerProcess::check_others(const std::vector<Introduction>& all) const {
  const Introduction& own = all[static_cast<std::size_t>(rank_)];
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<std::int64_t>(i) == rank_) continue;
    if (all[i].host != own.host) {
      fail("ranks {} and {} are on different hosts, which peer memory does not reach; ‹messages› nccl does",
           rank_, i);
    }
    if (all[i].gpu == own.gpu) {
      fail(
          "ranks {} and {} are processes on one GPU, where their kernels would not run side by side: name a "
          "GPU for each with ‹GPUs›, or start one process, whose ranks may share it",
          rank_, i);
    }
    const int gpu = visible_gpu(all[i].gpu);
    if (gpu < 0) {
      fail(
          "rank {} does not see the GPU of rank {}: start all processes with the same CUDA_VISIBLE_DEVICES, "
          "and ‹GPUs› with one GPU for each",
          rank_, i);
    }
    if (!can_access_memory(gpu_, gpu)) {
      fail(
          "cuda:{} of rank {} has no access to the memory of rank {}'s GPU: ranks on one host need GPUs that "
          "are joined by NVLink, or by PCIe with peer access (nvidia-smi topo -p2p rw shows which are), or "
          "‹messages› nccl",
          gpu_, rank_, i);
    }
  }
}

std::byte* PeerProcess::open(const void* handle) {
  cudaIpcMemHandle_t copy;
  std::memcpy(&copy, handle, sizeof(copy));
  void* data = nullptr;
  check_cuda(cudaIpcOpenMemHandle(&data, copy, cudaIpcMemLazyEnablePeerAccess),
             "opening another rank's memory");
  opened_.push_back(static_cast<std::byte*>(data));
  return opened_.back();
}

void PeerProcess::share(const CudaAllocations& allocations) {
  SharedRanges own{};
  if (std::ssize(allocations) > kMaxPeerRanges) {
    fail("rank {} has {} pieces of device memory; other processes reach {} at most", rank_,
         allocations.size(), kMaxPeerRanges);
  }
  for (const auto& [data, size_bytes] : allocations) {
    SharedRanges::Range& range = own.ranges[own.count++];
    range.begin = reinterpret_cast<std::uint64_t>(data);
    range.end = range.begin + static_cast<std::uint64_t>(size_bytes);
    check_cuda(cudaIpcGetMemHandle(&range.handle, data), "sharing memory with other processes");
  }
  const std::vector<SharedRanges> all = tell_all(host_, everybody(), own);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<std::int64_t>(i) == rank_) continue;
    std::vector<PeerRange> ranges(kMaxPeerRanges);
    for (std::int64_t k = 0; k < all[i].count; ++k) {
      const SharedRanges::Range& theirs = all[i].ranges[k];
      const auto here = reinterpret_cast<std::int64_t>(open(&theirs.handle));
      ranges[static_cast<std::size_t>(k)] = {.begin = theirs.begin,
                                             .end = theirs.end,
                                             .distance = here - static_cast<std::int64_t>(theirs.begin)};
    }
    check_cuda(cudaMemcpy(rank().state()->ranges[i], ranges.data(), ranges.size() * sizeof(PeerRange),
                          cudaMemcpyHostToDevice),
               "noting where other ranks' memory is");
  }
}

void PeerProcess::close() {
  check_cuda(cudaSetDevice(gpu_), "selecting the GPU");  // the thread may be another one
  check_cuda(cudaDeviceSynchronize(), "ending");
  close_others();
  meet_all(host_, everybody());
}

void PeerProcess::close_others() noexcept {
  if (opened_.empty()) return;
  static_cast<void>(cudaSetDevice(gpu_));
  for (std::byte* const data : opened_) static_cast<void>(cudaIpcCloseMemHandle(data));
  opened_.clear();
}

}  // namespace baleen
