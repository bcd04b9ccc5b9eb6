/// The two kernels of the collectives over peer memory: rows that are copied, and float32 vectors that are
/// added up. Each in two ways, which all ranks of a call must agree on.
///
///     pushed   as packets into the others' inboxes: one trip over the link; up to kMaxPushedBytes a message
///     read     out of the others' arrays by address: three trips, the link's speed
#pragma once

#include <cstdint>

#include "comm/peer/peer_view.h"
#include "cuda/cuda_context.h"

namespace baleen::BALEEN_ARCH {

inline constexpr std::int64_t kVectorBytes = 16;

enum class ExchangeWay : std::uint8_t { kPushed, kRead };

/// `largest_message`: of all pairs of ranks, so that all choose the same.
[[nodiscard]] ExchangeWay way_for(std::int64_t largest_message);

/// Rows of whole vectors.
struct VectorRows {
  std::byte* data = nullptr;
  std::int64_t stride = 0;  ///< bytes
  std::int32_t rows = 0;
  std::int32_t vectors = 0;  ///< vectors that a row has
};

/// By place in the group; a rank copies its own part too.
struct CopyExchange {
  PeerView peers;
  const std::byte* shared = nullptr;  ///< the array that others read
  VectorRows send[kMaxPeers];         ///< what member i gets, in this rank's memory
  VectorRows from[kMaxPeers];         ///< what member i sends: `data` is the offset in its `shared`
  VectorRows to[kMaxPeers];           ///< where that comes
};
void run_exchange(const CopyExchange& exchange, ExchangeWay way, CudaContext& context);

/// y[v] = sum over members, in ascending place, of their x[first of this rank + v]; in vectors of four.
struct SumExchange {
  PeerView peers;
  const float4* x = nullptr;
  std::int64_t first[kMaxPeers] = {};  ///< that member i gets
  std::int64_t count[kMaxPeers] = {};
  std::byte* y = nullptr;  ///< has as many values as this rank's count
  bool rounds = true;
  bool y_is_bf16 = true;
};
void run_exchange(const SumExchange& exchange, ExchangeWay way, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
