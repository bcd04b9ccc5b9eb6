/// What the two kernels for up to four tokens share: their arguments, activations in shared memory, and who
/// does what.
#pragma once

#include <cstdint>

#include "ops/experts/sm90/expert_dispatch.h"
#include "ops/experts/sm90/expert_four_tokens.h"
#include "ops/experts/sm90/expert_row_product.cuh"
#include "tensor/fp8_rows.h"

namespace baleen::sm90::four_tokens {

inline constexpr int kMaxGroups = 4;
inline constexpr int kMaxThreads = kMaxGroups * kGroupThreads;
inline constexpr int kMaxSlots = kWarpLanes;  // a lane each
inline constexpr int kMaxAssignments = kMaxSlots + static_cast<int>(kMaxStreamedTokens);
inline constexpr int kMaxSlotsTogether =
    kProductColumns / 2;  // of one expert: a warpgroup takes two experts at once
static_assert(kMaxStreamedTokens <= kMaxSlotsTogether);

// Of the whole block, which meets from both sides of a branch.
inline constexpr std::uint32_t kBlockBarrier = 1;

// A block of the first kernel has that many groups for routed experts and one more for the shared one, whose
// pieces have rows (of w1 and w3 each) for the bytes of a routed one's in FP4.
inline constexpr int kInnerGroups = 3;
inline constexpr int kSharedPieceRows = 16;

struct FourTokenParams {
  ExpertRows gate, up, down;   ///< of the routed experts
  const std::int32_t* places;  ///< theirs; null: expert e is at place e
  ExpertRows shared_gate, shared_up, shared_down;
  const std::int32_t* ids;
  const float* weights;
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  bool x_is_settled;  ///< x is there before the first kernel's wait
  Bf16Bits* inner;    ///< [assignments, inner_pitch]: a of every slot, then of the shared expert
  Bf16Bits* out;      ///< null: the sums go to `sums`
  float* sums;        ///< partial, in float32
  std::int32_t width;
  std::int32_t inner_width;           ///< of routed experts
  std::int32_t shared_inner_width;    ///< another where only one of them is split over ranks
  bool rounds_routed, rounds_shared;  ///< y, before it is added
  std::int32_t num_tokens;
  std::int32_t num_selected;
  std::int32_t first_expert;  ///< of this rank; experts are counted from it
  std::int32_t num_experts;   ///< of this rank
  bool has_shared;
  float swiglu_limit;

  /// -1: padding, or an expert of another rank. Past the first-level cache: the second kernel reads before it
  /// waits.
  [[nodiscard]] __device__ int expert_of(int slot) const {
    const std::int32_t id = __ldcg(ids + slot), expert = id - first_expert;
    return id >= 0 && expert >= 0 && expert < num_experts ? expert : -1;
  }
  [[nodiscard]] __host__ __device__ int num_slots() const { return num_tokens * num_selected; }
  [[nodiscard]] __host__ __device__ int inner_pitch() const {
    return inner_width > shared_inner_width ? inner_width : shared_inner_width;
  }
};

/// Slices of a row of `num_values`, up to a whole stage of FP4.
__host__ __device__ constexpr int padded_slices(int num_values) {
  return (num_values / kFp8RowBlock + 1) / 2 * 2;
}

/// Activations of one kernel in shared memory: codes of `num_columns` columns in the products' order, which
/// instructions read eight columns at a time from any one on, and their scales [slice][column].
struct ColumnMemory {
  std::uint8_t* codes;
  float* scales;
  int num_columns;

  __device__ ColumnMemory(std::uint8_t* memory, int slices, int columns)
      : codes(memory),
        scales(reinterpret_cast<float*>(memory + code_bytes(slices, columns))),
        num_columns(columns) {}

  // Behind the last column there is room for the seven more that an instruction reads.
  __host__ __device__ static constexpr int code_bytes(int slices, int columns) {
    return (slices * kSliceChunks * columns + kProductColumns) * kChunkBytes;
  }
  __host__ __device__ static constexpr int bytes(int slices, int columns) {
    return code_bytes(slices, columns) +
           (slices * columns + kProductColumns) * static_cast<int>(sizeof(float));
  }

  /// Word `source` of a slice of a column to its place.
  __device__ void store(int slice, int column, int source, std::uint32_t word) const {
    constexpr int kChunkWords = kChunkBytes / 4;
    const int to = product_word(source);
    std::uint8_t* const chunk =
        codes + kChunkBytes * ((slice * kSliceChunks + to / kChunkWords) * num_columns + column);
    reinterpret_cast<std::uint32_t*>(chunk)[to % kChunkWords] = word;
  }
  /// The products of columns from `first` on.
  template <class Product>
  __device__ void multiply(Product& product, const ScaledMagnitudes* tables, int first,
                           float (&acc)[4]) const {
    const float* const own = scales + first + threadIdx.x % 4 * 2;
    product.multiply(
        tables, codes + kChunkBytes * first, num_columns,
        [&](int slice) { return make_float2(own[slice * num_columns], own[slice * num_columns + 1]); }, acc);
  }
};

__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }
__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ inline int group_index() { return static_cast<int>(threadIdx.x) / kGroupThreads; }
__device__ inline int num_groups() { return static_cast<int>(blockDim.x) / kGroupThreads; }
/// Row of either half that is this thread's.
__device__ inline int row_in_piece() {
  return static_cast<int>(threadIdx.x) % kGroupThreads / kWarpLanes * 8 + lane_index() / 4;
}

template <int kStages>
__device__ inline std::uint8_t* group_ring(std::uint8_t* rings) {
  return rings + group_index() * kStages * kGroupStageBytes;
}

/// What a warp knows of the experts that tokens have: lane s of slot s. An expert with more slots than an
/// instruction has columns for, because tokens have it twice, counts as several.
class ChosenExperts {
 public:
  __device__ explicit ChosenExperts(const FourTokenParams& p) {
    expert_ = lane_index() < p.num_slots() ? p.expert_of(lane_index()) : -1;
    slots_ = __match_any_sync(kAllLanes, expert_);
    if (__any_sync(kAllLanes, expert_ >= 0 && __popc(slots_) > kMaxSlotsTogether)) {
      const int before = __popc(slots_ & ((1U << lane_index()) - 1));
      slots_ = __match_any_sync(kAllLanes, expert_ * kMaxSlots + before / kMaxSlotsTogether);
    }
    firsts_ = __ballot_sync(kAllLanes, expert_ >= 0 && lane_index() == __ffs(slots_) - 1);
  }

  struct Expert {
    int expert;           ///< of this rank
    std::uint32_t slots;  ///< that have it; none: there is no such expert
  };
  [[nodiscard]] __device__ int count() const { return __popc(firsts_); }
  /// Expert `index` of `count`, in the order of their first slots; the same index for the whole warp.
  [[nodiscard]] __device__ Expert at(int index) const {
    std::uint32_t left = firsts_;
    for (int i = 0; i < index; ++i) left &= left - 1;
    const int slot = max(__ffs(left) - 1, 0);
    const int expert = __shfl_sync(kAllLanes, expert_, slot);
    const std::uint32_t slots = __shfl_sync(kAllLanes, slots_, slot);
    return left != 0 ? Expert{expert, slots} : Expert{0, 0};
  }
  /// Of this lane's slot; -1: none.
  [[nodiscard]] __device__ int expert() const { return expert_; }
  /// Assignments of experts before `index`.
  [[nodiscard]] __device__ int assignments_before(int index) const {
    int sum = 0;
    std::uint32_t left = firsts_;
    for (int i = 0; i < index && left != 0; ++i) {
      sum += __popc(__shfl_sync(kAllLanes, slots_, __ffs(left) - 1));
      left &= left - 1;
    }
    return sum;
  }
  /// All of this rank.
  [[nodiscard]] __device__ int assignments() const { return __popc(__ballot_sync(kAllLanes, expert_ >= 0)); }
  /// The place of this lane's slot where experts come in that order and an expert's slots in ascending order.
  [[nodiscard]] __device__ int place() const {
    const std::uint32_t before = (1U << lane_index()) - 1;
    int place = __popc(slots_ & before);
    for (std::uint32_t left = firsts_ & ((1U << (__ffs(slots_) - 1)) - 1); __any_sync(kAllLanes, left != 0);
         left &= left - 1) {
      const int slot = left != 0 ? __ffs(left) - 1 : 0;
      const std::uint32_t others = __shfl_sync(kAllLanes, slots_, slot);
      if (left != 0) place += __popc(others);
    }
    return place;
  }

 private:
  int expert_;
  std::uint32_t slots_;   ///< that have this lane's expert, in one of its parts
  std::uint32_t firsts_;  ///< of each expert, or part, the first slot
};

/// Which items are a group's: groups of all blocks take them in turn. In the first round the last group,
/// where there is a shared expert, has that expert's.
class Turns {
 public:
  __device__ Turns(int block, int num_blocks, bool has_shared)
      : num_blocks_(num_blocks),
        shared_begin_(has_shared ? (num_groups() - 1) * num_blocks : INT32_MAX),
        position_(group_index() * num_blocks + block) {}
  __device__ bool is_shared() const {
    return position_ >= shared_begin_ && position_ < shared_begin_ + num_blocks_;
  }
  __device__ int item() const { return position_ < shared_begin_ ? position_ : position_ - num_blocks_; }
  __device__ void next() { position_ += num_groups() * num_blocks_; }

 private:
  int num_blocks_, shared_begin_, position_;
};

}  // namespace baleen::sm90::four_tokens
