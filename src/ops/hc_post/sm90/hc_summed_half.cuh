/// The result of a half-block as the sum of what ranks have of it: an all-reduce inside the kernel that reads
/// its result. A thread pushes its eight channels of its own rank's part and adds up those of all ranks.
#pragma once

#include <cstdint>

#include "comm/peer/peer_exchange.cuh"
#include "cuda/bf16_vector.cuh"
#include "ops/hc_pre/sm90/hc_site_args.h"

namespace baleen::sm90 {

/// In place of HcStoredHalf. The same bits as the all-reduce and that: float32 sums in ascending place,
/// rounded once.
struct HcSummedHalf {
  static constexpr int kMaxOctets = 1;

  PeerView peers;
  const float* sums;  ///< [T, d] this rank's

  /// As `begin_exchange`, whose wait comes later here.
  __device__ void begin() const {
    if (!peers.shares_gpu) ptx::launch_next_kernel();
  }
  __device__ void bring(const HcSiteArgs& /*args*/, uint4* to, int row, int width, int channel,
                        bool valid) const {
    constexpr int kVectors = 2;
    if (!valid) {
      *to = {};
      return;
    }
    const std::int64_t first = (std::int64_t{row} * width + channel) / 4;
    uint4 own[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) own[i] = __ldcg(reinterpret_cast<const uint4*>(sums) + first + i);
    for (int place = 0; place < peers.size; ++place) {
      if (place == peers.place) continue;
      const std::uint32_t flag = exchange_flag(peers, place);
      uint4* const packets = outbox(peers.ports[place], flag) + 2 * first;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) push_vector(packets + 2 * i, flag, own[i]);
    }
    float sum[4 * kVectors];
    for (int place = 0; place < peers.size; ++place) {
      const std::uint32_t flag = place == peers.place ? 0 : exchange_flag(peers, place);
      const uint4* const packets = inbox(peers.ports[place], flag) + 2 * first;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const uint4 part = place == peers.place ? own[i] : take_vector(peers, place, packets + 2 * i, flag);
        const std::uint32_t words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const float value = __uint_as_float(words[c]);
          sum[4 * i + c] = place == 0 ? value : sum[4 * i + c] + value;
        }
      }
    }
    *to = pack_bf16(sum);
  }
  __device__ void end() const { end_exchange(peers); }
};

}  // namespace baleen::sm90
