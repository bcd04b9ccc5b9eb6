/// The half blocks that a thread block's producer writes, in order, over all of its tasks.
///
/// A pair is two thread blocks of a cluster with tasks next to each other. Blocks that both lists have in common (all, where
/// the items are groups of heads of one query; the compressed entries as they stand, where they are neighbouring rows of one
/// sequence) are widened once: by each of the two the half that has its rank. Both go through the same number of blocks, the
/// shorter list's thread block without rows in the last ones.
#pragma once

#include "ops/sparse_attention/tile_smem.cuh"

namespace baleen::sm90 {

inline constexpr int kHalfEntries = kBlockEntries / 2;

/// What there is to do for a half block, and where it stands in its block and task. Without any: nothing.
enum HalfBlockBits : unsigned {
  kHasRows = 1U << 0U,
  kOpensTask = 1U << 1U,    ///< the first of its task; one without blocks has such a half all the same
  kOpensBlock = 1U << 2U,   ///< the stage must be free
  kClosesBlock = 1U << 3U,  ///< the block is complete, but for what the other of the pair sends
  kUpperHalf = 1U << 4U,    ///< entries 32 .. 63
  kSharedHalf = 1U << 5U,   ///< the other of the pair wants it too and widens the other half
  kEndOfTasks = 1U << 6U
};

class ListWalk {
 public:
  __device__ ListWalk(const AttentionLaunch& launch, const WorkPlan& plan, TaskInfo (&opened)[kOpenTasks],
                      unsigned rank)
      : launch_(launch), plan_(plan), opened_(opened), rank_(rank), task_(static_cast<int>(blockIdx.x)) {
    open();
  }

  [[nodiscard]] __device__ const EntryList& list() const { return list_; }
  [[nodiscard]] __device__ int num_opened() const { return num_opened_; }
  /// Of the block's first entry.
  [[nodiscard]] __device__ int index() const { return block_ * kBlockEntries; }

  [[nodiscard]] __device__ unsigned bits() const {
    if (task_ >= plan_.num_tasks()) return kEndOfTasks;
    const unsigned opens = opens_ ? kOpensTask : 0U;
    if (block_ >= pair_end_) return opens;
    if (block_ >= end_) return opens | kOpensBlock | kClosesBlock;
    if (shared()) {
      return opens | kHasRows | kOpensBlock | kClosesBlock | kSharedHalf | (rank_ != 0 ? kUpperHalf : 0U);
    }
    return opens | kHasRows | (upper_ ? kClosesBlock | kUpperHalf : kOpensBlock);
  }

  __device__ void advance() {
    if (task_ >= plan_.num_tasks()) return;
    opens_ = false;
    upper_ = !upper_ && block_ < end_ && !shared();
    if (upper_ || ++block_ < pair_end_) return;
    task_ += static_cast<int>(gridDim.x);
    open();
  }

 private:
  [[nodiscard]] __device__ bool shared() const { return block_ >= shared_.begin && block_ < shared_.end; }

  /// A pair's second task may be none.
  [[nodiscard]] __device__ EntryList list_of(int task) const {
    return task < plan_.items * plan_.parts ? EntryList::of(launch_, plan_.query_of(task)) : EntryList{};
  }
  __device__ static int num_blocks_of(const EntryList& list) {
    return uniform((list.size + kBlockEntries - 1) / kBlockEntries);
  }

  __device__ void open() {
    if (task_ >= plan_.num_tasks()) return;
    list_ = list_of(task_);
    const int num_blocks = num_blocks_of(list_);
    const BlockRange blocks = plan_.range(num_blocks, plan_.part_of(task_));
    TaskInfo info{.query = plan_.query_of(task_),
                  .group = plan_.group_of(task_),
                  .list_size = list_.size,
                  .blocks = blocks,
                  .pair_end = blocks.end,
                  .first_slot = plan_.shares(num_blocks) ? plan_.item_of(task_) * plan_.slots : -1,
                  .nothing = plan_.part_of(task_) != 0 || plan_.item_of(task_) >= plan_.items};
    block_ = blocks.begin;
    end_ = info.pair_end = blocks.end;
    shared_ = {};
    if (plan_.in_pairs) info.pair_end = compare(num_blocks);
    pair_end_ = info.pair_end;
    opens_ = true;
    if (threadIdx.x % kWarpgroupThreads == 0) opened_[num_opened_ % kOpenTasks] = info;
    ++num_opened_;
  }

  /// With the other list of the pair. Returns the larger number of blocks.
  __device__ int compare(int num_blocks) {
    const int other_task = task_ ^ 1;
    if (plan_.query_of(other_task) == plan_.query_of(task_)) {
      shared_ = {0, num_blocks};
      return num_blocks;
    }
    const EntryList other = list_of(other_task);
    const int other_blocks = num_blocks_of(other);
    if (list_.selected == nullptr && list_.pages == other.pages && list_.num_window == other.num_window) {
      shared_ = {uniform((list_.num_window + kBlockEntries - 1) / kBlockEntries), min(num_blocks, other_blocks)};
      // The last of them may have a row more in the other list. The consumers here pass over it.
      if (shared_.begin < shared_.end) list_.size = max(list_.size, other.size);
    }
    return max(num_blocks, other_blocks);
  }

  const AttentionLaunch& launch_;
  const WorkPlan& plan_;
  TaskInfo (&opened_)[kOpenTasks];
  unsigned rank_;
  int task_;
  EntryList list_;
  int block_ = 0, end_ = 0, pair_end_ = 0;
  BlockRange shared_;
  bool opens_ = false, upper_ = false;
  int num_opened_ = 0;
};

}  // namespace baleen::sm90
