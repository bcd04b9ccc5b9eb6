#include "comm/nccl/nccl_rank.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <future>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "comm/meet.h"
#include "cuda/cuda_error.h"
#include "cuda/cuda_memory.h"
#include "cuda/gpu_identity.h"

namespace baleen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
/// That an abort waits for; a longer one is cut off.
constexpr auto kLongestCall = std::chrono::seconds(2);
constexpr auto kLongestLeave = std::chrono::seconds(10);
constexpr std::int64_t kFirstBytes = 4096;  ///< to each rank, when connections are made

/// What ranks tell each other before they meet.
struct Introduction {
  int version;
  GpuIdentity gpu;
  NcclLibrary::UniqueId id;
};

void check_others(const std::vector<Introduction>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].version != all[0].version) {
      fail("rank {} has NCCL {}, rank 0 has {}: install the same version on all hosts", i,
           nccl_version_text(all[i].version), nccl_version_text(all[0].version));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i].gpu == all[j].gpu) {
        fail(
            "ranks {} and {} are on one GPU, and NCCL wants one for each: name others with ‹GPUs›, or start "
            "fewer ranks",
            j, i);
      }
    }
  }
}

/// One of the two values that kernels write.
std::uint32_t seen(const std::uint32_t* count) { return *static_cast<const volatile std::uint32_t*>(count); }

}  // namespace

struct NcclRank::Joined {
  NcclLibrary::Comm comm = nullptr;
  std::byte* buffer = nullptr;  ///< lies in the GPU's memory, the counts behind it
  std::uint32_t* counts = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string failed;
};

namespace {

/// Sends to and receives from everybody, so that connections and their memory are there. `buffer` has room
/// for both.
void exchange_first_bytes(const NcclLibrary& library, NcclLibrary::Comm comm, std::int64_t rank,
                          std::int64_t num_ranks, std::byte* buffer) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  library.check(library.group_start(), "connecting ranks by NCCL");
  for (std::int64_t other = 0; other < num_ranks; ++other) {
    if (other == rank) continue;
    library.check(
        library.send(buffer, kFirstBytes, NcclLibrary::kInt8, static_cast<int>(other), comm, stream),
        "connecting ranks by NCCL");
    library.check(library.receive(buffer + (1 + other) * kFirstBytes, kFirstBytes, NcclLibrary::kInt8,
                                  static_cast<int>(other), comm, stream),
                  "connecting ranks by NCCL");
  }
  library.check(library.group_end(), "connecting ranks by NCCL");
  check_cuda(cudaStreamSynchronize(stream), "connecting ranks by NCCL");
  check_cuda(cudaStreamDestroy(stream), "connecting ranks by NCCL");
}

}  // namespace

NcclRank::NcclRank(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
                   std::chrono::milliseconds longest_wait)
    : library_(nccl()),
      gpu_(gpu),
      rank_(rank),
      num_ranks_(num_ranks),
      longest_wait_(longest_wait),
      joined_(std::make_shared<Joined>()) {
  BALEEN_CHECK_LE((1 + num_ranks) * kFirstBytes, kBufferBytes);
  check_cuda(cudaSetDevice(gpu), "selecting the GPU");
  try {
    const std::int64_t bytes = whole_device_pages(kBufferBytes + 2 * std::int64_t{sizeof(std::uint32_t)});
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&joined_->buffer), static_cast<std::size_t>(bytes)),
               "getting memory for messages");
    check_cuda(cudaMemset(joined_->buffer, 0, static_cast<std::size_t>(bytes)), "clearing it");
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&joined_->counts), 2 * sizeof(std::uint32_t)),
               "getting pinned host memory");
    std::memset(joined_->counts, 0, 2 * sizeof(std::uint32_t));
    check_cuda(cudaDeviceSynchronize(), "clearing memory for messages");
    join(host);
  } catch (...) {
    release();
    throw;
  }
  watch_ = std::jthread([this](const std::stop_token& stop) {
    static_cast<void>(cudaSetDevice(gpu_));
    while (!stop.stop_requested() && !lost_) watch(stop);
  });
}

/// NCCL waits for ranks without an end: it does so in a thread that can be left behind.
void NcclRank::join(Communicator& host) {
  Introduction own{.version = library_.version(), .gpu = gpu_identity(gpu_), .id = {}};
  if (rank_ == 0) library_.check(library_.get_unique_id(&own.id), "starting NCCL");
  const std::vector<Introduction> all = tell_all(host, RankGroup::strided(0, 1, num_ranks_, rank_), own);
  check_others(all);
  std::thread([joined = joined_, library = library_, id = all.front().id, gpu = gpu_, rank = rank_,
               num_ranks = num_ranks_] {
    std::string failed;
    NcclLibrary::Comm comm = nullptr;
    try {
      check_cuda(cudaSetDevice(gpu), "selecting the GPU");
      library.check(library.comm_init_rank(&comm, static_cast<int>(num_ranks), id, static_cast<int>(rank)),
                    "joining ranks by NCCL (NCCL_DEBUG=WARN says more)");
      exchange_first_bytes(library, comm, rank, num_ranks, joined->buffer);
    } catch (const std::exception& error) {
      failed = error.what();
      if (comm != nullptr) static_cast<void>(library.comm_abort(comm));
      comm = nullptr;
    }
    const std::scoped_lock lock(joined->mutex);
    joined->comm = comm;
    joined->failed = failed;
    joined->done = true;
    joined->changed.notify_all();
  }).detach();
  std::unique_lock lock(joined_->mutex);
  if (!joined_->changed.wait_for(lock, longest_wait_, [&] { return joined_->done; })) {
    lock.unlock();
    joined_ = std::make_shared<Joined>();  // what the thread has stays its own
    fail(
        "rank {} waited {} ms for the other ranks to join by NCCL; one may have ended, or hosts do not reach "
        "each other (NCCL_SOCKET_IFNAME names the network, NCCL_DEBUG=INFO says what was tried)",
        rank_, longest_wait_.count());
  }
  if (!joined_->failed.empty()) fail("rank {}: {}", rank_, joined_->failed);
}

NcclRank::~NcclRank() {
  watch_ = {};
  release();
}

/// NCCL may wait for others that never come: that is left behind, too.
void NcclRank::leave() noexcept {
  const auto left = std::make_shared<std::promise<void>>();
  const std::future<void> done = left->get_future();
  std::thread([left, destroy = library_.comm_destroy, comm = joined_->comm, gpu = gpu_] {
    static_cast<void>(cudaSetDevice(gpu));
    static_cast<void>(destroy(comm));
    left->set_value();
  }).detach();
  static_cast<void>(done.wait_for(kLongestLeave));
}

void NcclRank::release() noexcept {
  static_cast<void>(cudaSetDevice(gpu_));
  if (joined_->comm != nullptr && !lost_) leave();
  joined_->comm = nullptr;
  if (joined_->buffer != nullptr) static_cast<void>(cudaFree(joined_->buffer));
  if (joined_->counts != nullptr) static_cast<void>(cudaFreeHost(joined_->counts));
  joined_->buffer = nullptr;
  joined_->counts = nullptr;
}

ExchangeCounts NcclRank::counts() const {
  return {reinterpret_cast<std::uint32_t*>(joined_->buffer + kBufferBytes), joined_->counts};
}

std::byte* NcclRank::buffer() const { return joined_->buffer; }

NcclLibrary::Comm NcclRank::comm() const { return joined_->comm; }

void NcclRank::watch(const std::stop_token& stop) {
  const std::uint32_t ended = seen(joined_->counts + 1), begun = seen(joined_->counts);
  const Clock::time_point since = Clock::now();
  while (begun != ended && seen(joined_->counts + 1) == ended) {
    if (stop.stop_requested()) return;
    if (Clock::now() - since > longest_wait_) {
      return lose(fmt::format(
          "rank {} waited {} ms for other ranks in an exchange by NCCL, and they did not come; one may have "
          "ended, be stuck or run another plan. Ranks that have lost each other must be started again",
          rank_, longest_wait_.count()));
    }
    int error = NcclLibrary::kSuccess;
    if (library_.comm_get_async_error(joined_->comm, &error) == NcclLibrary::kSuccess &&
        error != NcclLibrary::kSuccess && error != NcclLibrary::kInProgress) {
      return lose(fmt::format(
          "rank {} lost the other ranks: NCCL says '{}'. One may have ended, or the network between hosts "
          "has failed; ranks that have lost each other must be started again",
          rank_, library_.error_string(error)));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  std::this_thread::sleep_for(kBetweenLooks);
}

/// Kernels that wait for other ranks end when the communicator is aborted. The abort itself returns only
/// when no graph has exchanges of it any more.
void NcclRank::lose(const std::string& why) {
  why_lost_ = why;
  lost_ = true;
  { const std::unique_lock under_way(calls_, kLongestCall); }
  static_cast<void>(library_.comm_abort(joined_->comm));
}

void NcclRank::check() const {
  if (lost_) fail("{}", why_lost_);
}

void NcclRank::exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> receive, CUstream_st* stream) const {
  const std::unique_lock lock(calls_);
  check();
  NcclLibrary::Comm with = joined_->comm;
  library_.check(library_.group_start(), "exchanging by NCCL");
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    if (i == static_cast<std::size_t>(group.place)) continue;
    const int member = static_cast<int>(group.ranks[i]);
    if (!send[i].empty()) {
      library_.check(library_.send(send[i].data(), send[i].size(), NcclLibrary::kInt8, member, with, stream),
                     "sending by NCCL");
    }
    if (!receive[i].empty()) {
      library_.check(
          library_.receive(receive[i].data(), receive[i].size(), NcclLibrary::kInt8, member, with, stream),
          "receiving by NCCL");
    }
  }
  library_.check(library_.group_end(), "exchanging by NCCL");
}

}  // namespace baleen
