/// The ways in which a kernel's threads hand on a stage of a ring in shared memory, each as a kernel of its
/// own that does nothing else. Every order between a write and a read is fixed by an mbarrier, so a report of
/// compute-sanitizer's racecheck on one of them is about what the tool follows, not about the pattern
/// (docs/cuda.md).
#pragma once

#include <cstdint>

struct CUstream_st;

namespace baleen::ring_handover {

enum class Pattern : std::uint8_t {
  kEveryThreadFrees,    ///< TMA fills; each reading thread arrives to free
  kOneLaneFrees,        ///< TMA fills; the warp synchronises, then its first lane arrives to free
  kLoaderStoresBeside,  ///< the same; beside TMA the loading thread stores a word, which its own arrival
                        ///< publishes
  kWarpFills,           ///< a warp fills with ordinary stores, synchronises, and its first lane arrives
  kClusterFrees,  ///< two CTAs, each fills a half of both CTAs' stages by multicast; readers free both CTAs'
                  ///< stages
  kThroughThird,  ///< one warp writes, another reads; what frees the stage reaches the writer through a third
                  ///< warp
  kNamedBarriers  ///< two warps alternate on one array, each `bar.arrive`s where the other waits with
                  ///< `bar.sync`
};

inline constexpr int kWordsOfStage =
    128;                             ///< uint32 values: half a stage is 256 bytes, the widest box of TMA
inline constexpr int kReaders = 64;  ///< threads of a CTA that read, two warps

/// out[cta, reader] = sum over rounds r of (r + 1) * (words of round r that `reader` reads: reader, reader +
/// 64, ...) (mod 2^32), where the words of round r are source[r, :]; kLoaderStoresBeside adds r once a round.
/// The last two patterns hand on one word a lane: out[cta, lane] = sum over r of (r + 1) * source[r, lane],
/// and nothing is written for readers from 32 on. source: [num_rounds, kWordsOfStage] in device memory; out:
/// [num_ctas, kReaders]. num_ctas is even.
void run(Pattern pattern, const std::uint32_t* source, int num_rounds, int num_ctas, std::uint32_t* out,
         CUstream_st* stream);

}  // namespace baleen::ring_handover
