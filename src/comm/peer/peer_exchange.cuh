/// The steps of an exchange, for kernels: flags, packets, addresses, and waits that end.
#pragma once

#include <cstdint>

#include "comm/peer/peer_view.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/system_memory.h"

namespace baleen {

/// The first thing that all threads do. Where ranks share a GPU, the kernel behind this one must not begin
/// early: it would take the room that kernels of other ranks need before this one can end.
__device__ inline void begin_exchange(const PeerView& peers, const NextAtOnce& order) {
  if (!peers.shares_gpu) order.launch_next();
  ptx::wait_for_previous_kernel();
}

/// Of the exchange under way with the member at `place`; the same at both. After the wait for the previous
/// kernel.
__device__ inline std::uint32_t exchange_flag(const PeerView& peers, int place) {
  return peers.ports[place].counts[blockIdx.x] + 1;
}

/// Later waits of this rank end at once; the host learns of the first reason alone.
__device__ inline void give_up(const PeerView& peers, int place, std::uint32_t reason) {
  if (atomicExch(peers.failed, 1u) != 0) return;
  peers.failure->member = place;
  peers.failure->rank = peers.ranks[place];
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(&peers.failure->happened) = reason;
}

/// True once `ready`, which is asked again and again; false when the member does not come in time, or one did
/// not earlier. The host finds out by `PeerRank::check`.
template <class Ready>
__device__ bool wait_for_peer(const PeerView& peers, int place, Ready&& ready) {
  constexpr std::uint32_t kTriesBetweenClocks = 1024;
  std::uint64_t begin = 0;
  for (std::uint32_t tries = 1;; ++tries) {
    if (ready()) return true;
    if (tries % kTriesBetweenClocks != 0) continue;
    if (*static_cast<volatile std::uint32_t*>(peers.failed) != 0) return false;
    const std::uint64_t now = ptx::global_time();
    if (begin == 0) begin = now;
    if (now - begin < peers.longest_wait_ns) continue;
    give_up(peers, place, PeerFailure::kWaited);
    return false;
  }
}

// Packets.

/// 16 bytes of data as two packets.
__device__ inline void push_vector(uint4* packets, std::uint32_t flag, const uint4& data) {
  ptx::store_volatile(packets, {data.x, flag, data.y, flag});
  ptx::store_volatile(packets + 1, {data.z, flag, data.w, flag});
}

/// Zeros where they never come.
__device__ inline uint4 take_vector(const PeerView& peers, int place, const uint4* packets,
                                    std::uint32_t flag) {
  uint4 first{}, second{};
  const bool came = wait_for_peer(peers, place, [&] {
    first = ptx::load_volatile(packets);
    second = ptx::load_volatile(packets + 1);
    return first.y == flag && first.w == flag && second.y == flag && second.w == flag;
  });
  return came ? uint4{first.x, first.z, second.x, second.z} : uint4{};
}

__device__ inline uint4* outbox(const PeerPort& port, std::uint32_t flag) {
  return port.outbox + flag % 2 * kInboxPackets;
}
__device__ inline const uint4* inbox(const PeerPort& port, std::uint32_t flag) {
  return port.inbox + flag % 2 * kInboxPackets;
}

// Staging.

__device__ inline std::byte* staging_out(const PeerPort& port, std::uint32_t flag) {
  return port.staging_out + flag % 2 * kMaxStagedBytes;
}
__device__ inline std::byte* staging_in(const PeerPort& port, std::uint32_t flag) {
  return port.staging_in + flag % 2 * kMaxStagedBytes;
}

__device__ inline std::uint32_t not_empty(std::uint32_t word) {
  return word == kEmptyWord ? kEmptyWord >> 1 : word;
}

__device__ inline void stage_vector(uint4* to, const uint4& data) {
  ptx::store_volatile(to, {not_empty(data.x), not_empty(data.y), not_empty(data.z), not_empty(data.w)});
}

__device__ inline bool has_empty_word(const uint4& data) {
  return data.x == kEmptyWord || data.y == kEmptyWord || data.z == kEmptyWord || data.w == kEmptyWord;
}

/// `seen`: what an earlier load of it gave. NaN where it never comes.
__device__ inline uint4 take_staged(const PeerView& peers, int place, uint4* from, uint4 seen) {
  if (has_empty_word(seen)) {
    wait_for_peer(peers, place, [&] {
      seen = ptx::load_volatile(from);
      return !has_empty_word(seen);
    });
  }
  *from = {kEmptyWord, kEmptyWord, kEmptyWord, kEmptyWord};
  return seen;
}

// Addresses.

/// What earlier kernels have written there is seen by who hears of it.
__device__ inline void tell_address(const PeerView& peers, int place, int array, const void* address) {
  const std::uint32_t flag = exchange_flag(peers, place);
  const auto bits = reinterpret_cast<std::uint64_t>(address);
  __threadfence_system();
  ptx::store_volatile(&peers.ports[place].signals->addresses[array],
                      {static_cast<std::uint32_t>(bits), flag, static_cast<std::uint32_t>(bits >> 32), flag});
}

/// An address that the member at `place` tells, here.
__device__ inline std::byte* address_here(const PeerView& peers, int place, std::uint64_t address) {
  const PeerRange* const ranges = peers.ports[place].ranges;
  if (ranges == nullptr || address == 0) return reinterpret_cast<std::byte*>(address);
  for (int i = 0; i < kMaxPeerRanges; ++i) {
    if (address >= ranges[i].begin && address < ranges[i].end)
      return reinterpret_cast<std::byte*>(address + static_cast<std::uint64_t>(ranges[i].distance));
  }
  give_up(peers, place, PeerFailure::kUnknownAddress);
  return nullptr;
}

/// Null where it never comes.
__device__ inline std::byte* hear_address(const PeerView& peers, int place, int array) {
  const std::uint32_t flag = exchange_flag(peers, place);
  uint4 packet{};
  const bool came = wait_for_peer(peers, place, [&] {
    packet = ptx::load_volatile(&peers.ports[place].heard->addresses[array]);
    return packet.y == flag && packet.w == flag;
  });
  __threadfence_system();
  return came ? address_here(peers, place, static_cast<std::uint64_t>(packet.z) << 32 | packet.x) : nullptr;
}

// The end. All threads of all blocks call one of these last.

__device__ inline bool is_peer(const PeerView& peers, int place) {
  return place < peers.size && place != peers.place;
}

/// Of an exchange by packets alone. Blocks that this kernel does not have count all the same, by its first.
__device__ inline void end_exchange(const PeerView& peers) {
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  for (int place = 0; place < peers.size; ++place) {
    if (place == peers.place) continue;
    std::uint32_t* const counts = peers.ports[place].counts;
    const std::uint32_t flag = counts[block] + 1;
    __syncthreads();
    if (thread == 0) counts[block] = flag;
    if (block != 0) continue;
    for (int i = static_cast<int>(gridDim.x) + thread; i < kMaxExchangeBlocks;
         i += static_cast<int>(blockDim.x))
      counts[i] = flag;
  }
}

/// Of the kernel: whether this block is the last one to come here. All its threads get the answer.
__device__ inline bool is_last_block(const PeerView& peers) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(peers.blocks_done, 1u) == gridDim.x - 1;
    if (last) *peers.blocks_done = 0;
  }
  __syncthreads();
  return last;
}

/// Of an exchange with addresses: when it returns, what the others read here may be overwritten, and what
/// they write here is there, where `kWrites`: ranks write into each other's arrays.
template <bool kWrites>
__device__ void end_exchange_when_all_done(const PeerView& peers) {
  if constexpr (kWrites) __threadfence_system();
  if (!is_last_block(peers)) return;
  const int place = static_cast<int>(threadIdx.x);
  if (is_peer(peers, place)) {
    const std::uint32_t flag = exchange_flag(peers, place);
    if constexpr (kWrites) __threadfence_system();
    ptx::store_volatile(&peers.ports[place].signals->done, {flag, flag, flag, flag});
    wait_for_peer(peers, place,
                  [&] { return ptx::load_volatile(&peers.ports[place].heard->done).x == flag; });
    if constexpr (kWrites) __threadfence_system();
  }
  __syncthreads();
  for (int other = 0; other < peers.size; ++other) {
    if (other == peers.place) continue;
    for (int i = static_cast<int>(threadIdx.x); i < kMaxExchangeBlocks; i += static_cast<int>(blockDim.x))
      ++peers.ports[other].counts[i];
  }
}

}  // namespace baleen
