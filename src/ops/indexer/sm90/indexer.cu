// Indexer on Hopper: one kernel prepares queries, scores keys and keeps the best; where there are fewer
// queries than the device has room for, their keys are split over more blocks and a second kernel merges what
// the splits kept.

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>

#include "cuda/cuda_context.h"
#include "cuda/device_batch_rows.h"
#include "cuda/kernel_launch.h"
#include "ops/indexer/cuda/indexer.h"
#include "ops/indexer/sm90/merge_kernel.cuh"
#include "ops/indexer/sm90/score_kernel.cuh"

namespace baleen::sm90 {
namespace {

using namespace index_kernels;

/// Queries of a block where neighbouring rows share a sequence (and it has room for the best of each), else
/// one.
constexpr int kManyQueries = 8;
constexpr std::int64_t kManyMaxTopK = 1536;
constexpr int kManyWarpgroups = 3;
constexpr int kFewWarpgroups = 4;
/// A split costs what preparing queries and selecting cost, taken to be this part of a typical scan of keys.
constexpr double kSplitCost = 0.05;
/// Blocks are at most so many times as many as run at once, when keys are split.
constexpr int kMaxWaves = 4;

/// Into how many parts the keys of each of `num_blocks` blocks are cut, `at_once` of which run at a time.
int num_splits_of(std::int64_t num_blocks, std::int64_t at_once, std::int64_t top_k) {
  const std::int64_t most =
      std::min(kMaxWaves * at_once / num_blocks, kMergeCluster * (kMergeCapacity / top_k));
  std::int64_t best = 1;
  double best_time = 1e30;
  for (std::int64_t splits = 1; splits <= std::max<std::int64_t>(most, 1); ++splits) {
    const std::int64_t waves = (num_blocks * splits + at_once - 1) / at_once;
    const double time = static_cast<double>(waves) * (1.0 / static_cast<double>(splits) + kSplitCost);
    if (time < best_time) {
      best_time = time;
      best = splits;
    }
  }
  return static_cast<int>(best);
}

template <int kQueries, int kWarpgroups>
void launch_scores(ScoreArgs args, std::int64_t num_blocks, int num_splits, const CudaContext& context) {
  // Room for what comes between two checks, and beside it for so many candidates that dropping them is rare;
  // more than that, of several queries, do not fit into shared memory.
  constexpr std::int64_t kRoom = std::int64_t{kRoundsOfRoom} * kWarpgroups * kTileKeys;
  constexpr std::int64_t kMaxCandidates = kQueries > 1 ? 1664 : 2112;
  static_assert(kMaxCandidates > (kQueries > 1 ? kManyMaxTopK : kMaxTopK));
  args.capacity = static_cast<int>(std::min(4 * std::int64_t{args.top_k}, kMaxCandidates) + kRoom);
  const std::size_t shared_bytes =
      sizeof(ScoreSpace<kQueries>) + sizeof(Candidate) * kQueries * args.capacity;
  const auto kernel = args.pool.log2_rows == kLog2TileKeys ? score_kernel<kQueries, kWarpgroups, true>
                                                           : score_kernel<kQueries, kWarpgroups, false>;
  launch_kernel("indexer: scores", kernel,
                {.grid = dim3(static_cast<unsigned>(num_blocks), static_cast<unsigned>(num_splits)),
                 .threads = kWarpgroups * kWarpgroup,
                 .shared_bytes = static_cast<std::int64_t>(shared_bytes)},
                context.stream, args);
}

}  // namespace

std::int64_t indexer_scratch_bytes(std::int64_t max_rows, std::int64_t top_k, int num_sms,
                                   std::int64_t num_blocks) {
  // Split rows are at most as many as the queries of kMaxWaves waves, and a row has at most a split for each
  // block of them.
  const std::int64_t blocks = std::int64_t{kMaxWaves} * num_sms;
  const std::int64_t lists = std::min(kManyQueries * blocks, max_rows * blocks);
  return std::max(Arena::bytes_for<Candidate>(lists * top_k) + Arena::bytes_for<std::int32_t>(lists),
                  mma_indexer_scratch_bytes(max_rows, top_k, num_sms, num_blocks));
}

void indexer(const IndexerArgs& args, CudaContext& context) {
  if (args.blocks.size > 0) return mma_indexer(args, context);
  check_indexer_arguments(args, context);
  const std::int64_t num_rows = args.q.extent(0), top_k = args.selected.extent(1);
  if (num_rows == 0) return;
  const DeviceBatch batch = rows_of(context.batch, args.first_row, num_rows);
  // A prompt gives neighbouring rows the same keys; rows of a few tokens a sequence do not.
  const bool many = num_rows >= kManyQueries * std::int64_t{batch.num_sequences} && top_k <= kManyMaxTopK;
  const std::int64_t num_blocks = many ? (num_rows + kManyQueries - 1) / kManyQueries : num_rows;
  const int num_splits = num_splits_of(num_blocks, context.num_sms, top_k);

  const ScratchScope scope(context.scratch);
  SplitLists lists{};
  if (num_splits > 1) {
    lists.candidates = context.scratch.allocate<Candidate>(num_rows * num_splits * top_k);
    lists.counts = context.scratch.allocate<std::int32_t>(num_rows * num_splits);
  }
  const ScoreArgs scoring{
      .inputs = query_inputs(args),
      .pool = {.base = args.keys.base,
               .page_stride_bytes = static_cast<std::uint32_t>(args.keys.page_stride_bytes),
               .log2_rows = std::countr_zero(static_cast<unsigned>(args.keys.rows_per_page))},
      .batch = batch,
      .selected = args.selected.data(),
      .selected_stride = args.selected.stride(0),
      .lists = lists,
      .top_k = static_cast<int>(top_k),
      .ratio = args.ratio,
      .capacity = 0,
      .is_settled = context.stream.is_settled(
          Accesses().read(args.q, args.head_weights, args.cosine, args.sine).write(args.selected))};
  if (many) {
    launch_scores<kManyQueries, kManyWarpgroups>(scoring, num_blocks, num_splits, context);
  } else {
    launch_scores<1, kFewWarpgroups>(scoring, num_blocks, num_splits, context);
  }
  if (num_splits == 1) return;

  constexpr int kListsForOneBlock = 8;
  const int ranks = num_splits > kListsForOneBlock ? kMergeCluster : 1;
  const std::int64_t candidates = std::max((num_splits + ranks - 1) / ranks * top_k,
                                           std::int64_t{ranks} * most_of_block(static_cast<int>(top_k)));
  launch_kernel(
      "indexer: merging", merge_kernel,
      {.grid = dim3(static_cast<unsigned>(ranks), static_cast<unsigned>(num_rows)),
       .threads = kMergeThreads,
       .shared_bytes = static_cast<std::int64_t>(sizeof(MergeSpace) + sizeof(Candidate) * candidates),
       .cluster = static_cast<int>(ranks)},
      context.stream,
      MergeArgs{.lists = lists,
                .batch = batch,
                .selected = args.selected.data(),
                .selected_stride = args.selected.stride(0),
                .top_k = static_cast<int>(top_k),
                .num_splits = num_splits,
                .ratio = args.ratio});
}

}  // namespace baleen::sm90
