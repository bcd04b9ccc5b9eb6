/// What kernels of one rank know of the ranks that they exchange data with: addresses in each other's memory,
/// and how often the two have exchanged something.
///
/// Ranks count their exchanges in pairs. Both of a pair take part in each of them, so both have the same
/// count, which is the flag of everything that belongs to the exchange: nothing is ever reset, and a graph
/// may be replayed. The counts lie in the GPU's memory.
///
///     packets    {data, flag, data, flag} of 16 bytes, pushed into the other's inbox: a reader knows by the
///                flags that a packet is there. Two inboxes take turns: who pushes exchange n has got all of
///                n - 1, which the other sent after it had read n - 2.
///     counts     one for each block of a kernel, all the same between kernels: a block needs no other to
///                know where it is, and the end of an exchange costs a store.
///     staging    data without flags, in turns like packets: a word that is not there yet is kEmptyWord,
///                which no data has, and who takes data leaves that behind.
///     addresses  of arrays that the other may read or write until it says that it is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include <vector_types.h>

namespace baleen {

inline constexpr int kMaxPeers = 16;            ///< ranks of a group on one host
inline constexpr int kMaxSharedArrays = 6;      ///< whose addresses an exchange may tell
inline constexpr int kMaxPeerRanges = 64;       ///< pieces of memory of a rank in another process
inline constexpr int kMaxExchangeBlocks = 264;  ///< a kernel that exchanges has no more blocks
/// Kernels that hand rows to each other have no more counters.
inline constexpr int kMaxPeerCounters = 32 << 10;
inline constexpr std::int64_t kMaxPushedBytes = 512 << 10;  ///< limit of one message
inline constexpr std::int64_t kPacketData = 8;              ///< bytes of data in a packet
inline constexpr std::int64_t kInboxPackets = kMaxPushedBytes / kPacketData;
inline constexpr int kMaxStagedTokens = 256;  ///< whose rows an exchange may stage
inline constexpr std::int64_t kMaxStagedBytes = 16 << 20;
/// Of staging. As FP8 or BF16 values all NaN; a word of data that is so becomes another with all NaN.
inline constexpr std::uint32_t kEmptyWord = 0xFFFFFFFFu;

/// What one rank tells another, in the other's memory: each a packet.
struct PeerSignals {
  uint4 addresses[kMaxSharedArrays];
  uint4 done;
};

/// Memory of a rank in another process.
struct PeerRange {
  std::uint64_t begin = 0, end = 0;  ///< addresses there
  std::int64_t distance = 0;         ///< from them to the same bytes' addresses here
};

/// One pair of ranks, as one of them has it.
struct PeerPort {
  uint4* outbox = nullptr;           ///< [2, kInboxPackets] the other's, for packets of this rank
  const uint4* inbox = nullptr;      ///< [2, kInboxPackets]
  std::byte* staging_out = nullptr;  ///< [2, kMaxStagedBytes] the other's
  std::byte* staging_in = nullptr;
  PeerSignals* signals = nullptr;  ///< the other's
  const PeerSignals* heard = nullptr;
  std::uint32_t* counts = nullptr;  ///< [kMaxExchangeBlocks] of exchanges that have ended
  /// [kMaxPeerRanges] where the addresses that the other tells are; null: it is of this process, so here.
  const PeerRange* ranges = nullptr;
};

/// Why a kernel stopped waiting. In host memory.
struct PeerFailure {
  static constexpr std::uint32_t kWaited = 1, kUnknownAddress = 2;
  std::uint32_t happened;  ///< one of these; 0: nothing has
  std::int32_t member;     ///< place in the group of the one that did not come
  std::int32_t rank;       ///< its rank
};

/// A group, as kernels of one of its ranks get it.
struct PeerView {
  PeerPort ports[kMaxPeers];  ///< one for each place in the group; this rank's own is empty
  std::int32_t ranks[kMaxPeers];
  std::int32_t size = 1;
  std::int32_t place = 0;
  std::uint32_t* blocks_done = nullptr;  ///< counts blocks of the kernel under way
  /// [kMaxPeerCounters] of kernels of this rank that hand rows to each other: 0 before the first of them, and
  /// cleared by the last.
  std::int32_t* counters = nullptr;
  /// Not 0: a wait of this rank has ended without what it waited for; later ones do not wait at all.
  std::uint32_t* failed = nullptr;
  PeerFailure* failure = nullptr;
  std::uint64_t longest_wait_ns = 0;
  bool shares_gpu = false;    ///< other ranks of the service run on this GPU
  bool packets_only = false;  ///< no rank reaches an array of another: messages lie in the host's memory
  std::int32_t max_blocks = kMaxExchangeBlocks;  ///< limit of a kernel that exchanges, equal on all ranks
};

}  // namespace baleen
