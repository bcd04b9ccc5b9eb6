/// The forward pass, written once as a sequence of operations on a device, for one rank and for many: it
/// calls collectives where ranks need what others have, and of one rank none.   (source: forward-pass
/// specification 3 to 8, parallel MoE 2, 12)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "forward/batch_overlap.h"
#include "forward/batch_rows.h"
#include "forward/forward_buffers.h"
#include "forward/message_buffers.h"
#include "kv_cache/kv_cache.h"
#include "model/config.h"
#include "model/rank_layout.h"
#include "model/weight_tree.h"
#include "moe/residence/expert_store.h"
#include "numeric/dtype.h"
#include "ops/dispatch/combine.h"
#include "ops/experts/experts.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/operation/step_shape.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/route/route.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Extents of a step of `max_rows` rows, of which `max_logit_rows` want logits, for a device's scratch.
[[nodiscard]] StepShape step_shape(const ModelConfig& config, std::int64_t max_rows,
                                   std::int64_t max_logit_rows, std::int64_t max_sequences,
                                   std::int64_t max_positions);

/// Rows of a batch as a draft head enters its blocks with them. Arrays have the rows that the rank keeps.
struct DraftRows {
  std::span<const TokenId> tokens;  ///< of these rows
  RowRange kept;                    ///< which of the batch's they are
  Activations<3> streams;           ///< [R, n, d] what enters the first block: to be made
  // Free until the first block begins.
  Activations<3> stream_values;  ///< [R, n, d]
  Activations<2> values[2];      ///< [R, d]
};

/// What a draft head runs over the rows of a batch: operations of its own that make the streams, then blocks
/// [begin, end), all of them behind the main layers.
struct DraftRun {
  std::int64_t begin = 0, end = 0;
  std::function<void(const DraftRows&)> enter;
};

class Forward {
 public:
  /// All of them must outlive this; weights, cache and `arena`, which has forward_buffer_bytes(config,
  /// max_rows, device.traits().activation_type) left, lie in the device's memory.
  /// Of a rank among others, config and weights are that rank's (`rank_config`, `rank_share`), and all ranks
  /// of `layout` make the same calls in the same order; those of a data-parallel group with the same batch.
  /// With o_proj_tp greater than tp, the batches of all data-parallel groups have as many rows.
  Forward(const ModelConfig& config, const WeightTree& weights, Device& device, const KvCache& cache,
          Precision precision, std::int64_t max_rows, Arena& arena, RankLayout layout = {});

  /// Runs the main layers over a batch of at most max_rows rows; returns the residual streams [T, n, d] after
  /// the last one, valid until the next call. Cache rows of the batch's positions are written on the way.
  /// Where ranks share out rows these are the ones that the rank keeps, `kept`.
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch);
  /// The same of a batch with tokens that operations called before leave at `chosen` (StepBatches::begin).
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen);

  /// Runs the blocks of a draft head over a batch of at most max_rows rows, whose tokens and streams are what
  /// the head makes of them; all rows, also where ranks share them out. Returns the streams [T, n, d] after
  /// the last block, valid until the next call, as `run` does.
  [[nodiscard]] Activations<3> run_drafts(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                          const DraftRun& drafts);

  /// Of the rows of the latest pass, padding included, those that this rank keeps.
  [[nodiscard]] RowRange kept() const { return layout_.kept(num_rows_); }
  /// Streams of all rows of the latest pass, where ranks share them out: `own` of each rank comes to its
  /// place in `all`, which has room for the rows of padding too. Returns all of them.
  [[nodiscard]] Activations<3> gathered(ConstActivations<3> own, const Activations<3>& all);

  /// Prepares steps of `num_rows` rows, so that the device runs them as quickly as it can.
  void capture(std::int64_t num_rows);
  /// The same of a draft head's, in which nothing changes from call to call but the batch. Ranks of stages
  /// without its blocks call it with those that have them, and have no blocks in `drafts`.
  void capture_drafts(std::int64_t num_rows, const DraftRun& drafts);

  /// Logits [R, V] of R rows of streams [R, n, d], R at most max_rows. Where ranks share out rows, `streams`
  /// are those of R that the rank keeps. Every rank of a group that splits the vocabulary gets all
  /// logits.
  void logits(ConstActivations<3> streams, Activations<2> out);
  /// The same by the mixing and the norm of a draft head, before the model's own projection.
  void logits(ConstActivations<3> streams, const HcWeights& mixing, std::span<const float> norm,
              Activations<2> out);

  /// Cuts steps in two from now on; the same bits. Made for `rows_of_two_batches` rows, of a plan with
  /// data-parallel attention whose experts get assignments (`overlap_violation`), on a device with two
  /// batches. Steps that are observed stay whole, and so do those of a draft head.
  void overlap_batches(const BatchOverlap& when);

  /// From now on passes over the main layers leave a copy of the streams after layer `block`, as the rank
  /// counts, in `copy`, [max_rows, n, d], of the rows that the rank keeps: what a draft head may want of
  /// layers before the last. Steps are whole then. Before `capture`.
  void copy_streams_after(std::int64_t block, const Activations<3>& copy) {
    stream_copies_.emplace_back(block, copy);
  }

  /// Steps of many tokens use the copies that `experts`, which must outlive this, makes for them; null: there
  /// are none.
  void set_experts(ExpertStore* experts) { experts_ = experts; }
  /// How many tokens were sent to each routed expert since the start, as rows of [blocks, E]; runs that are
  /// observed do not count. Waits for the device.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() const;

  /// What the experts of `block` are expected to get where the data-parallel group's batch has `num_rows`,
  /// for a device that does not see the routing.
  using ExpectedLoad = std::function<ExpertLoad(std::int64_t block, std::int64_t num_rows)>;
  void expect_load(ExpectedLoad expected) { expected_load_ = std::move(expected); }

  /// Called after each block of the main layers with its streams, if set: tests and the search for the first
  /// non-finite layer, which repeats a pass whose tokens are counted already.
  using BlockObserver = void (*)(void* context, std::int64_t block, ConstActivations<3> streams);
  void observe_blocks(BlockObserver observer, void* context) {
    observer_ = observer;
    observer_context_ = context;
  }

 private:
  /// A batch as the operations get it: on a device that pads, with more rows than the caller has.
  struct Step {
    RaggedBatch batch;
    StepRows rows;
  };

  /// Blocks [begin, end) over the streams of a step's rows.
  struct BlockRun {
    std::int64_t begin = 0, end = 0;
    const Step& step;
    Activations<3> streams;
  };

  /// Micro-batch `part` of `whole`, with its part of the arrays, which begins at row `first`.
  Forward(const Forward& whole, int part, std::int64_t first);

  // Two micro-batches (forward_halves.cc).
  [[nodiscard]] bool cuts(const RaggedBatch& batch);
  [[nodiscard]] Activations<3> run_cut(const RaggedBatch& batch, std::span<const TokenId> chosen);
  /// `adjoin`: the second part's streams follow the first one's; else they begin where those of a draft head
  /// do.
  void run_halves(const std::array<Step, 2>& steps, bool adjoin);
  void capture_halves(std::int64_t num_rows);
  void post(const std::function<void()>& messages);
  /// Once the outputs of other ranks' experts are there, leaves the block.
  void take_outputs(std::int64_t block, const BlockRun& run);

  [[nodiscard]] Activations<3> run_step(const Step& step);
  /// Of a pass: without padding where every rank has all rows.
  [[nodiscard]] RowRange returned_rows(const Step& step) const;
  [[nodiscard]] Activations<3> run_main(const Step& step);
  /// All that comes before the first block.
  void begin_main(const Step& step, const Activations<3>& streams);
  [[nodiscard]] Activations<3> run_drafts(const Step& step, const DraftRun& drafts);
  /// Rotation angles of the batch's positions, both variants.
  void prepare_angles(const Step& step);
  void run_blocks(const BlockRun& run);
  // A half-block is left and the next one entered in one operation, unless a caller wants the value between
  // (forward_blocks.cc).
  [[nodiscard]] bool stops_after(std::int64_t block) const;
  /// Where a copy of the streams after `block` is wanted; null: nowhere.
  [[nodiscard]] const Activations<3>* copy_after(std::int64_t block) const;
  void enter_block(std::int64_t block, const BlockRun& run);
  void enter_experts(std::int64_t block, const BlockRun& run);
  void leave_block(std::int64_t block, const BlockRun& run);
  [[nodiscard]] HcPreArgs entry(const BlockRun& run, const HcWeights& hc, const HalfBlockValues& half,
                                const RowRange& own) const;
  [[nodiscard]] RmsNormArgs entry_norm(std::span<const float> weight, const HalfBlockValues& half,
                                       const RowRange& own, bool quantises) const;
  [[nodiscard]] RowRange attention_rows(const BlockRun& run) const;
  [[nodiscard]] HcPreArgs attention_entry(std::int64_t block, const BlockRun& run) const;
  [[nodiscard]] RmsNormArgs attention_norm(std::int64_t block, const BlockRun& run) const;
  [[nodiscard]] HcPostArgs left_half(const BlockRun& run, const HalfBlockValues& half) const;
  void attention(std::int64_t block, const Step& step);
  void project(std::int64_t block, const LayerAttention& shape);
  /// With context parallelism: what the cache of every rank needs of the rows of others.
  void gather_cache_inputs(std::int64_t block, const LayerAttention& shape);
  void compress(std::int64_t block, const LayerAttention& shape, const Step& step);
  /// To the first rows of `copy`, which has as many or more.
  void copy_streams(const Activations<3>& streams, const Activations<3>& copy);
  void project_queries(std::int64_t block, const LayerAttention& shape);
  /// Heads to the half-block's result: wo_a, wo_b, and the sums over ranks that split them
  /// (forward_output.cc).
  void project_output(std::int64_t block);
  void add_up_output(const Activations<2>& sums, const Activations<2>& f);
  /// `is_last`: no block of the pass follows.
  void moe(std::int64_t block, const Step& step, bool is_last);
  /// The router's part of it: what the experts are called with.
  [[nodiscard]] ExpertsArgs choose_experts(std::int64_t block, const Step& step, bool is_last);
  /// What does not change from step to step, and the step's tokens.
  [[nodiscard]] RouteArgs route_of(std::int64_t block, const Step& step) const;
  /// Where a pass counts the block's routed tokens, [E]; empty for a pass that is observed.
  [[nodiscard]] std::span<std::int64_t> load_counts(std::int64_t block) const;
  /// The routed and the shared experts, by the transport of the layout (forward_experts.cc). `call` has this
  /// rank's rows.
  void run_experts(ExpertsArgs call, std::int64_t block);
  void add_up_experts(ExpertsArgs call);
  /// Where the block's experts lie; `call` gets this rank's.
  [[nodiscard]] ExpertRanks place_experts(ExpertsArgs& call, std::int64_t block) const;
  /// Tokens that go to experts of other ranks.
  struct Exchange {
    ExpertsArgs call;
    ExpertRanks placement;
  };
  void exchange_experts(const Exchange& exchange);
  /// Places that a rank has for what each sends, where dispatch, experts and combine are to be one; else 0.
  [[nodiscard]] std::int64_t fused_places(const ExpertsArgs& call) const;
  /// The shared expert for this rank's own tokens, and routed ones for those that arrive.
  [[nodiscard]] ExpertsArgs shared_of(const Exchange& exchange);
  [[nodiscard]] ExpertsArgs routed_of(const Exchange& exchange);
  /// Shared and routed experts, with a join of what was posted in between.
  void run_arrived(const Exchange& exchange);
  [[nodiscard]] CombineArgs combine_of(const Exchange& exchange);
  void gather_experts(const ExpertsArgs& call, const ExpertRanks& placement);
  void share_expert(ExpertsArgs& call) const;
  void gather_dispatched(const Activations<2>& out);
  /// Rows of this rank's batch that it dispatches, as the arguments of that.
  [[nodiscard]] RowRange dispatched_rows(const ExpertsArgs& call) const;
  [[nodiscard]] DispatchArgs dispatch_of(const ExpertsArgs& call, const ExpertRanks& placement);
  /// What a dispatch brought, as the arguments of its experts.
  [[nodiscard]] ExpertsArgs arrived_of(const ExpertsArgs& call);
  /// Which rows of the step's batch are whose.
  void share_rows(const Step& step);
  [[nodiscard]] RowRange kept_rows() const {
    return kept_rows_[static_cast<std::size_t>(layout_.group_index())];
  }
  [[nodiscard]] std::span<const TokenId> kept_tokens(const Step& step) const;
  /// Every rank of the data-parallel group gets the rows that the others have in `x`.
  void gather_rows_of(const Activations<2>& x, std::span<const RowRange> shares);
  [[nodiscard]] std::span<const float> frequencies(RopeKind kind) const;
  void project_vocabulary(ConstActivations<2> x, Activations<2> out);

  const ModelConfig& config_;
  const WeightTree& weights_;
  Device& device_;
  const KvCache& cache_;
  Precision precision_;
  RankLayout layout_;
  ForwardBuffers buffers_;
  MessageBuffers messages_;
  std::int64_t num_rows_ = 0;  ///< of the batch as the device has it
  RowRange attending_;         ///< of them, those whose queries this rank attends with
  std::vector<SequenceSlice> attending_slices_;
  BatchPart attending_batch_;  ///< these rows; the whole batch unless ranks share them out
  /// [ranks of a group] between attention and attention; those sent to experts; of the head. [o_proj_tp] of
  /// the output projection. [ranks of the stage] of tokens that were gathered.
  std::vector<RowRange> kept_rows_, dispatched_rows_, head_rows_, output_shares_, token_shares_;
  int post_number_ = 0;  ///< of the messages that are posted
  BatchOverlap overlap_;
  std::array<std::unique_ptr<Forward>, 2> halves_;         ///< the two micro-batches; null: steps are whole
  std::array<std::vector<SequenceSlice>, 2> half_slices_;  ///< of theirs
  std::vector<std::pair<std::int64_t, Activations<3>>> stream_copies_;  ///< by block
  ExpectedLoad expected_load_;
  ExpertStore* experts_ = nullptr;
  BlockObserver observer_ = nullptr;
  void* observer_context_ = nullptr;
};

}  // namespace baleen
