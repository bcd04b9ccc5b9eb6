#include "comm/peer/peer_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "comm/nccl/nccl_rank.h"
#include "comm/peer/peer_process.h"
#include "cuda/cuda_error.h"

namespace baleen {
namespace {

constexpr std::int64_t kInboxBytes = 2 * kInboxPackets * std::int64_t{sizeof(uint4)};
constexpr std::int64_t kStagingBytes = 2 * kMaxStagedBytes;

std::int64_t most_ranks_of_one(std::span<const int> gpus) {
  std::int64_t most = 1;
  for (const int gpu : gpus) most = std::max<std::int64_t>(most, std::ranges::count(gpus, gpu));
  return most;
}

/// Of each of `sharing` ranks that share GPUs: when all but one wait for it, they have half of the
/// multiprocessors at most, and its kernels the others.
std::int32_t exchange_blocks(std::span<const int> gpus, std::int64_t sharing) {
  int fewest = kMaxExchangeBlocks;
  for (const int gpu : gpus) {
    int count = 0;
    check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, gpu),
               "counting multiprocessors");
    fewest = std::min(fewest, count);
  }
  return std::max(1, fewest / (2 * static_cast<int>(sharing)));
}

}  // namespace

bool can_access_memory(int gpu, int other) {
  int access = 0;
  check_cuda(cudaDeviceCanAccessPeer(&access, gpu, other), "asking for access to another GPU's memory");
  return access != 0;
}

uint4* PeerRank::inbox(std::int64_t sender) const {
  return reinterpret_cast<uint4*>(region_ + sender * kInboxBytes);
}

std::byte* PeerRank::staging(std::int64_t sender) const {
  return region_ + std::ssize(*all_) * kInboxBytes + sender * kStagingBytes;
}

PeerSignals* PeerRank::signals(std::int64_t sender) const {
  return reinterpret_cast<PeerSignals*>(staging(std::ssize(*all_))) + sender;
}

PeerRank::PeerRank(const NcclRank& nccl) : nccl_(&nccl), rank_(nccl.rank()) {}

std::int64_t PeerRank::num_ranks() const { return nccl_ != nullptr ? nccl_->num_ranks() : std::ssize(*all_); }

PeerView PeerRank::view(const RankGroup& group) const {
  BALEEN_CHECK(nccl_ == nullptr);
  BALEEN_CHECK(group.size() <= kMaxPeers && group.rank() == rank_);
  PeerView view{.size = static_cast<std::int32_t>(group.size()),
                .place = static_cast<std::int32_t>(group.place),
                .blocks_done = &state()->blocks_done,
                .counters = state()->counters,
                .failed = &state()->failed,
                .failure = failure_,
                .longest_wait_ns = static_cast<std::uint64_t>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(longest_wait_).count()),
                .shares_gpu = sharing_ > 1,
                .packets_only = place_ == MessageMemory::kHost,
                .max_blocks = max_blocks_};
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    const std::int64_t other = group.ranks[i];
    BALEEN_CHECK_LT(other, std::ssize(*all_));
    view.ranks[i] = static_cast<std::int32_t>(other);
    if (other == rank_) continue;
    const PeerRank& peer = (*all_)[static_cast<std::size_t>(other)];
    view.ports[i] = {.outbox = peer.inbox(rank_),
                     .inbox = inbox(other),
                     .staging_out = peer.staging(rank_),
                     .staging_in = staging(other),
                     .signals = peer.signals(rank_),
                     .heard = signals(other),
                     .counts = state()->counts[other],
                     .ranges = process_ != nullptr ? state()->ranges[other] : nullptr};
  }
  return view;
}

void PeerRank::check() const {
  if (nccl_ != nullptr) return nccl_->check();
  const std::uint32_t happened = static_cast<const volatile PeerFailure*>(failure_)->happened;
  if (happened == 0) return;
  if (happened == PeerFailure::kUnknownAddress) {
    fail("rank {} cannot reach an array of rank {}, whose memory was not shared: a bug of the program", rank_,
         failure_->rank);
  }
  fail(
      "rank {} waited {} ms for rank {} in a kernel, and it did not come; it may have ended, be stuck or run "
      "another plan. Ranks that have lost each other must be started again",
      rank_, longest_wait_.count(), failure_->rank);
}

void PeerRank::share(const CudaAllocations& allocations) const {
  if (process_ != nullptr) process_->share(allocations);
}

void PeerRank::open_region(std::int64_t num_ranks, MessageMemory place) {
  const std::int64_t bytes =
      num_ranks * (kInboxBytes + kStagingBytes + static_cast<std::int64_t>(sizeof(PeerSignals)));
  const auto region = reinterpret_cast<void**>(&region_);
  const auto size = static_cast<std::size_t>(whole_device_pages(bytes));
  place_ = place;
  // Pinned memory that is portable has one address on all GPUs.
  check_cuda(place == MessageMemory::kHost
                 ? cudaHostAlloc(region, size, cudaHostAllocPortable | cudaHostAllocMapped)
                 : cudaMalloc(region, size),
             "getting memory for messages");
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&state_), sizeof(State)), "getting memory for their state");
  check_cuda(cudaMemset(state_, 0, sizeof(State)), "clearing it");
  if (place == MessageMemory::kHost) {
    std::memset(region_, 0, static_cast<std::size_t>(bytes));  // nothing is staged there
  } else {
    check_cuda(cudaMemset(region_, 0, static_cast<std::size_t>(bytes)), "clearing it");
    check_cuda(cudaMemset(staging(0), 0xFF, static_cast<std::size_t>(num_ranks * kStagingBytes)),
               "emptying it");
  }
  check_cuda(cudaMallocHost(reinterpret_cast<void**>(&failure_), sizeof(PeerFailure)),
             "getting pinned host memory");
  *failure_ = {};
  check_cuda(cudaDeviceSynchronize(), "clearing memory for messages");
}

void PeerRank::close_region() noexcept {
  if (region_ == nullptr) return;
  static_cast<void>(cudaSetDevice(gpu_));
  static_cast<void>(place_ == MessageMemory::kHost ? cudaFreeHost(region_) : cudaFree(region_));
  static_cast<void>(cudaFree(state_));
  static_cast<void>(cudaFreeHost(failure_));
  region_ = nullptr;
}

PeerMemory::PeerMemory(std::span<const int> gpus, std::chrono::milliseconds longest_wait, MessageMemory place)
    : ranks_(gpus.size()) {
  if (gpus.size() > kMaxPeers) fail("{} ranks: at most {} exchange data on one host", gpus.size(), kMaxPeers);
  if (place == MessageMemory::kDevices) connect(gpus);
  const std::int64_t sharing = most_ranks_of_one(gpus);
  const std::int32_t max_blocks = sharing == 1 ? kMaxExchangeBlocks : exchange_blocks(gpus, sharing);
  const auto num_ranks = static_cast<std::int64_t>(gpus.size());
  int previous = 0;
  check_cuda(cudaGetDevice(&previous), "asking for the current GPU");
  try {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      PeerRank& rank = ranks_[i];
      rank.all_ = &ranks_;
      rank.rank_ = static_cast<std::int64_t>(i);
      rank.gpu_ = gpus[i];
      rank.longest_wait_ = longest_wait;
      rank.sharing_ = sharing;
      rank.max_blocks_ = max_blocks;
      check_cuda(cudaSetDevice(gpus[i]), "selecting the GPU");
      rank.open_region(num_ranks, place);
    }
    check_cuda(cudaSetDevice(previous), "selecting the GPU");
  } catch (...) {
    release();
    throw;
  }
}

PeerMemory::~PeerMemory() { release(); }

void PeerMemory::release() noexcept {
  for (PeerRank& rank : ranks_) rank.close_region();
}

void PeerMemory::connect(std::span<const int> gpus) const {
  for (const int gpu : gpus) {
    check_cuda(cudaSetDevice(gpu), "selecting the GPU");
    for (const int other : gpus) {
      if (other == gpu) continue;
      if (!can_access_memory(gpu, other)) {
        fail(
            "cuda:{} has no access to the memory of cuda:{}: ranks on one host need GPUs that are joined by "
            "NVLink, or by PCIe with peer access (nvidia-smi topo -p2p rw shows which are), or ‹messages› "
            "nccl; stages of a pipeline (‹pipeline parallelism›) also do with ‹messages› host-memory",
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
