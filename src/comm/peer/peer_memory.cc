#include "comm/peer/peer_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "cuda/cuda_error.h"

namespace baleen {
namespace {

constexpr std::int64_t kInboxBytes = 2 * kInboxPackets * std::int64_t{sizeof(uint4)};
constexpr std::int64_t kStagingBytes = 2 * kMaxStagedBytes;

/// Ordinary loads and stores, and their order at the other GPU.
bool have_access(int gpu, int other) {
  int access = 0;
  check_cuda(cudaDeviceCanAccessPeer(&access, gpu, other), "asking for access to another GPU's memory");
  return access != 0;
}

}  // namespace

uint4* PeerRank::inbox(std::int64_t sender) const {
  return reinterpret_cast<uint4*>(region_ + sender * kInboxBytes);
}

std::byte* PeerRank::staging(std::int64_t sender) const {
  return region_ + std::ssize(*all_) * kInboxBytes + sender * kStagingBytes;
}

PeerSignals* PeerRank::signals(std::int64_t sender) const {
  return reinterpret_cast<PeerSignals*>(staging(std::ssize(*all_))) + sender;
}

PeerRank::State* PeerRank::state() const { return reinterpret_cast<State*>(signals(std::ssize(*all_))); }

PeerView PeerRank::view(const RankGroup& group) const {
  BALEEN_CHECK(group.size() <= kMaxPeers && group.rank() == rank_);
  PeerView view{.size = static_cast<std::int32_t>(group.size()),
                .place = static_cast<std::int32_t>(group.place),
                .blocks_done = &state()->blocks_done,
                .failed = &state()->failed,
                .failure = failure_,
                .longest_wait_ns = static_cast<std::uint64_t>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(longest_wait_).count())};
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    const std::int64_t other = group.ranks[i];
    BALEEN_CHECK_LT(other, std::ssize(*all_));
    view.ranks[i] = static_cast<std::int32_t>(other);
    if (other == rank_) continue;
    const PeerRank& peer = (*all_)[static_cast<std::size_t>(other)];
    view.ports[i] = {peer.inbox(rank_),   inbox(other),   peer.staging(rank_),   staging(other),
                     peer.signals(rank_), signals(other), state()->counts[other]};
  }
  return view;
}

void PeerRank::check() const {
  if (static_cast<const volatile PeerFailure*>(failure_)->happened == 0) return;
  fail(
      "rank {} waited {} ms for rank {} in a kernel, and it did not come; it may have ended, be stuck or run "
      "another plan. Ranks that have lost each other must be started again",
      rank_, longest_wait_.count(), failure_->rank);
}

PeerMemory::PeerMemory(std::span<const int> gpus, std::chrono::milliseconds longest_wait)
    : ranks_(gpus.size()) {
  if (gpus.size() > kMaxPeers) fail("{} GPUs: at most {} exchange data on one host", gpus.size(), kMaxPeers);
  connect(gpus);
  const auto num_ranks = static_cast<std::int64_t>(gpus.size());
  const std::int64_t bytes =
      num_ranks * (kInboxBytes + kStagingBytes + static_cast<std::int64_t>(sizeof(PeerSignals))) +
      static_cast<std::int64_t>(sizeof(PeerRank::State));
  int previous = 0;
  check_cuda(cudaGetDevice(&previous), "asking for the current GPU");
  try {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      PeerRank& rank = ranks_[i];
      rank.all_ = &ranks_;
      rank.rank_ = static_cast<std::int64_t>(i);
      rank.gpu_ = gpus[i];
      rank.longest_wait_ = longest_wait;
      check_cuda(cudaSetDevice(gpus[i]), "selecting the GPU");
      check_cuda(cudaMalloc(reinterpret_cast<void**>(&rank.region_), static_cast<std::size_t>(bytes)),
                 "getting memory for messages");
      check_cuda(cudaMemset(rank.region_, 0, static_cast<std::size_t>(bytes)), "clearing it");
      check_cuda(cudaMemset(rank.staging(0), 0xFF, static_cast<std::size_t>(num_ranks * kStagingBytes)),
                 "emptying it");
      check_cuda(cudaMallocHost(reinterpret_cast<void**>(&rank.failure_), sizeof(PeerFailure)),
                 "getting pinned host memory");
      *rank.failure_ = {};
      check_cuda(cudaDeviceSynchronize(), "clearing memory for messages");
    }
    check_cuda(cudaSetDevice(previous), "selecting the GPU");
  } catch (...) {
    release();
    throw;
  }
}

PeerMemory::~PeerMemory() { release(); }

void PeerMemory::release() noexcept {
  for (const PeerRank& rank : ranks_) {
    if (rank.region_ == nullptr) continue;
    static_cast<void>(cudaSetDevice(rank.gpu_));
    static_cast<void>(cudaFree(rank.region_));
    static_cast<void>(cudaFreeHost(rank.failure_));
  }
}

void PeerMemory::connect(std::span<const int> gpus) const {
  for (const int gpu : gpus) {
    if (std::ranges::count(gpus, gpu) > 1) fail("cuda:{} is named twice: a GPU is one rank", gpu);
    check_cuda(cudaSetDevice(gpu), "selecting the GPU");
    for (const int other : gpus) {
      if (other == gpu) continue;
      if (!have_access(gpu, other)) {
        fail(
            "cuda:{} has no access to the memory of cuda:{}: ranks on one host need GPUs that are joined by "
            "NVLink, or by PCIe with peer access; nvidia-smi topo -p2p rw shows which are",
            gpu, other);
      }
      const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) {
        static_cast<void>(cudaGetLastError());
      } else {
        check_cuda(status, "getting access to another GPU's memory");
      }
    }
  }
}

}  // namespace baleen
