/// Where routed experts lie when it is not one behind the other in one memory, and what kernels know that
/// bring experts from outside the device's memory. Kernels of devices alone read this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baleen {

inline constexpr int kMaxSlotsOfBlock = 16;
inline constexpr int kMaxExpertsOfBlock = 512;
/// Experts are copied in pieces, each by one block of threads; whether a piece has come is kept.
inline constexpr std::int64_t kFetchPieceBytes = std::int64_t{64} << 10;
inline constexpr int kMaxFetchPieces = 512;
constexpr std::int32_t num_fetch_pieces(std::int64_t expert_bytes) {
  return static_cast<std::int32_t>((expert_bytes + kFetchPieceBytes - 1) / kFetchPieceBytes);
}

/// The experts that a block's slots hold, in the device's memory.
struct ExpertSlotState {
  std::int32_t expert[kMaxSlotsOfBlock];   ///< -1: none
  std::int32_t age[kMaxSlotsOfBlock];      ///< steps since the expert was chosen
  std::int32_t guessed[kMaxSlotsOfBlock];  ///< 1: fetched by a guess, no step has chosen it since
  std::int32_t arrivals;                   ///< thread blocks of the copying kernel that have read all this
  std::uint8_t pieces[kMaxSlotsOfBlock][kMaxFetchPieces];  ///< 1: has come
};

/// Of all blocks since the start, in the device's memory. A chosen expert counts once for each step and
/// block, however many tokens chose it.
struct ExpertFetchCounts {
  std::uint64_t resident = 0;        ///< chosen experts that the device's memory has
  std::uint64_t in_slots = 0;        ///< that a slot had, whole
  std::uint64_t from_host = 0;       ///< those of which pieces or all had to come from the host's memory
  std::uint64_t from_disk = 0;       ///< from disk
  std::uint64_t guessed = 0;         ///< experts that a guess began to fetch
  std::uint64_t guessed_chosen = 0;  ///< those of them that the next step then chose
  std::uint64_t bytes_ahead = 0;     ///< copied before the router had chosen
  std::uint64_t bytes_behind = 0;    ///< copied after it
  std::uint64_t computed = 0;        ///< chosen experts that the host computed
  std::uint64_t computed_rows = 0;   ///< token-expert assignments of these
  std::uint64_t waited_ns = 0;       ///< that a step's first token waited for the host's rows
  std::uint64_t fetch_ns = 0;        ///< that a thread block of chosen experts' copies copied

  ExpertFetchCounts& operator+=(const ExpertFetchCounts& more) {
    for_each(more, [](std::uint64_t& own, std::uint64_t other) { own += other; });
    return *this;
  }
  ExpertFetchCounts& operator-=(const ExpertFetchCounts& less) {
    for_each(less, [](std::uint64_t& own, std::uint64_t other) { own -= other; });
    return *this;
  }

 private:
  /// Calls `change(count, other.count)` for every count.
  template <class Change>
  void for_each(const ExpertFetchCounts& other, Change change) {
    change(resident, other.resident);
    change(in_slots, other.in_slots);
    change(from_host, other.from_host);
    change(from_disk, other.from_disk);
    change(guessed, other.guessed);
    change(guessed_chosen, other.guessed_chosen);
    change(bytes_ahead, other.bytes_ahead);
    change(bytes_behind, other.bytes_behind);
    change(computed, other.computed);
    change(computed_rows, other.computed_rows);
    change(waited_ns, other.waited_ns);
    change(fetch_ns, other.fetch_ns);
  }
};

/// What a copying kernel asks the host for, and the host's answers: in pinned memory, each word written by
/// one side alone. Words with two numbers have that of the request in the upper 48 bits.
struct ExpertReadRequest {
  alignas(64) std::uint64_t posted;  ///< number of the latest request, 1 for the first; written last
  std::int32_t block;
  std::int32_t count;
  std::int32_t experts[kMaxExpertsOfBlock];
  alignas(64) std::uint64_t taken;     ///< request, and how many of its experts have been copied
  alignas(64) std::uint64_t answered;  ///< request, and how many of its experts are staged; by the host
  alignas(64) std::uint64_t given_up;  ///< 1: the kernel waited too long
};
inline constexpr int kRequestShift = 16;

/// Of copying kernels among themselves, in the device's memory.
struct ExpertReadState {
  std::uint64_t number;                   ///< number of the latest request
  std::int32_t done[kMaxExpertsOfBlock];  ///< thread blocks that have copied the request's expert
};

/// Experts on disk. Expert i of a request is staged at place i modulo num_staged.
struct ExpertReads {
  ExpertReadRequest* request = nullptr;  ///< null: no expert is on disk
  ExpertReadState* state = nullptr;
  const std::byte* staged = nullptr;  ///< pinned, a block behind the other
  std::int32_t num_staged = 0;
  std::int32_t block = 0;  ///< number of this block in requests
};

/// Steps of more tokens, or more token-expert assignments, have no experts computed by the host.
inline constexpr int kMaxHostTokens = 64;
inline constexpr int kMaxHostRows = 512;

/// What experts outside the device's memory take, in nanoseconds.
struct HostExpertTimes {
  std::uint32_t fetch_piece;     ///< a piece over PCIe
  std::uint32_t compute_expert;  ///< an expert with one row on the host's cores
  std::uint32_t compute_row;     ///< each further row of it
  /// What a request takes beside the experts' own time, less what the GPU does meanwhile beside the fetch.
  std::int32_t hand_over;
};

/// What kernels ask the host to compute, and the host's answer: in pinned memory, each word written by one
/// side alone. Rows are those of the experts one behind the other, experts in ascending order.
struct HostExpertRequest {
  alignas(64) std::uint64_t posted;  ///< number of the latest request, 1 for the first; written last
  std::int32_t block;
  std::int32_t num_tokens;
  std::int32_t num_experts;
  std::uint32_t fetch_ns;      ///< what the latest fetch since the request before took, of
  std::uint32_t fetch_pieces;  ///< so many pieces; 0: there was none
  /// Of the request before: from its post until its rows were wanted, 0 if that is not known, and from then
  /// until they were there.
  std::uint32_t gpu_ns, wait_ns;
  std::int32_t experts[kMaxExpertsOfBlock];
  std::int32_t places[kMaxExpertsOfBlock];          ///< `ExpertPlaces::of_expert` of these
  std::int32_t first_rows[kMaxExpertsOfBlock + 1];  ///< each expert's first, and how many there are
  std::int32_t tokens[kMaxHostRows];                ///< each row's
  float weights[kMaxHostRows];                      ///< routing weights
  alignas(64) std::uint64_t answered;               ///< request whose rows are there; by the host
  alignas(16) HostExpertTimes times;                ///< the host renews it now and then
  alignas(64) std::uint64_t given_up;               ///< 1: a kernel waited too long
};

/// What a guess says of the next block: in pinned memory, written by kernels alone. Nothing waits for it, and
/// who reads it while the next one is written may find places of both.
struct HostExpertGuess {
  static constexpr std::int32_t kMaxExperts = 32;
  alignas(64) std::uint64_t posted;  ///< number of the latest guess, written last
  std::int32_t count;
  std::int32_t places[kMaxExperts];  ///< host places; first those that are computed rather than fetched
};

/// From one scale of a token to its next one in a request of so many.
constexpr std::int32_t host_scale_stride(std::int32_t num_tokens) { return (num_tokens + 3) / 4 * 4; }

/// Of kernels among themselves, in the device's memory.
struct HostExpertState {
  std::uint64_t number;                       ///< the latest request's
  std::uint64_t guess_number;                 ///< the latest guess's
  std::uint64_t posted_at;                    ///< the GPU's time of that
  std::uint32_t fetch_ns, fetch_pieces;       ///< `HostExpertRequest`
  std::uint32_t gpu_ns, wait_ns;              ///< `HostExpertRequest`
  std::int32_t computed[kMaxExpertsOfBlock];  ///< 1: the host computes the expert for this call
  std::int32_t row_of_slot[kMaxHostRows];     ///< the host's row of a token's slot; -1: not the host's
};

/// Experts that the host computes.
struct ComputedExperts {
  HostExpertRequest* request = nullptr;  ///< null: it computes none
  HostExpertState* state = nullptr;
  HostExpertGuess* guess = nullptr;  ///< null: the host does not prepare for the next block
  std::uint8_t* codes = nullptr;     ///< pinned: [num_tokens, d] of the tokens that have rows
  float* scales = nullptr;           ///< pinned: [d / 128, host_scale_stride(num_tokens)]
  const std::uint16_t* y = nullptr;  ///< pinned: [rows, d] BF16, the answer
  std::int32_t block = 0;            ///< number of this block in requests
};

/// Places in the device's memory for experts of one block that come from outside. An expert that is chosen
/// and away goes to a slot, where it stays until a chosen expert finds no other; those for which there is no
/// slot go to a buffer, one behind the other, which the next block overwrites.
struct ExpertSlots {
  std::int32_t count = 0;   ///< up to kMaxSlotsOfBlock
  std::int32_t first = 0;   ///< place of slot 0
  std::int32_t buffer = 0;  ///< first place of the buffer
  /// [E] places for copies of all experts away, in steps of many tokens; of experts on the device, their own.
  const std::int32_t* buffered = nullptr;
  std::int32_t* copied = nullptr;  ///< [E] `ExpertPlaces::copied`
  ExpertSlotState* state = nullptr;
  ExpertFetchCounts* counts = nullptr;
  /// Set once the router of a step has chosen: fetching ahead stops.
  std::int32_t* routed = nullptr;
  ExpertReads reads{};
  ComputedExperts host{};
  /// What copying a piece takes at least, for links slower than this one; 0: what it takes.
  std::uint32_t least_piece_ns = 0;
};

/// The arrays of expert e are those of `routed[0]`, moved by `of_expert[e]` times the distance between
/// `routed[0]` and `routed[1]`.
struct ExpertPlaces {
  /// [E] in the device's memory, each in [0, count), or -1: on disk; null: expert e is at e.
  const std::int32_t* of_expert = nullptr;
  std::int64_t count = 0;  ///< how many places there are
  /// Where some are outside the device's memory: [E] like of_expert, the place in it that a kernel copied
  /// expert e to before others read it; of experts that are there, their own. Null: all are there.
  const std::int32_t* copied = nullptr;
  /// Where some are copied: place 0, and the distance from one to the next, a multiple of 16. All arrays of
  /// an expert lie between its place and the next.
  std::byte* blocks = nullptr;
  std::int64_t block_bytes = 0;
  ExpertSlots slots{};
};

}  // namespace baleen
