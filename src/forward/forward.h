/// The forward pass, written once as a sequence of operations on a device, for one rank and for many: it
/// calls collectives where ranks need what others have, and of one rank none.   (source: forward-pass
/// specification 3 to 8, parallel MoE 2, 12)
///
///     main layers    ResidualStreams::begin, then for each block
///                      enter_block      Attention::run
///                      enter_experts    MixtureOfExperts::run
///                      leave_block
///     draft head     what the head enters its blocks with, then its blocks
///     logits         Heads::logits
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "forward/attention.h"
#include "forward/batch_overlap.h"
#include "forward/heads.h"
#include "forward/mixture_of_experts.h"
#include "forward/overlap.h"
#include "forward/pass.h"
#include "forward/residual_streams.h"
#include "ops/operation/step_shape.h"
#include "tensor/buffer.h"

namespace baleen {

/// Extents of a step of `max_rows` rows, of which `max_logit_rows` want logits, for a device's scratch.
[[nodiscard]] StepShape step_shape(const RankConfig& rank, std::int64_t max_rows, std::int64_t max_logit_rows,
                                   std::int64_t max_sequences, std::int64_t max_positions);

/// What `Forward` takes of its arena for steps of `max_rows` rows, where activations are of `type`.
[[nodiscard]] std::int64_t forward_buffer_bytes(const RankConfig& rank, std::int64_t max_rows,
                                                ElementType type);
/// What it takes of the device's memory beside that, for messages between ranks.
[[nodiscard]] std::int64_t message_buffer_bytes(const RankConfig& rank, const RankLayout& layout,
                                                std::int64_t max_rows, ElementType type);

/// Rows of a batch as a draft head enters its blocks with them. Arrays have the rows that the rank keeps.
struct DraftRows {
  std::span<const TokenId> tokens;  ///< ids of these rows
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

/// What a draft head takes up of a step: operations of its own that make what its blocks' attention would
/// see, of which only the cache rows of blocks [begin, end) are made.
struct DraftRecord {
  std::int64_t begin = 0, end = 0;
  /// `u`: [K, d] to be made, of the rows `kept` of the batch; `u_fp8` of the same rows, where it has any, for
  /// FP8 products. `free`: [K, d] to work with.
  struct Rows {
    RowRange kept;
    Activations<2> u;
    Fp8Rows u_fp8;
    Activations<2> free;
  };
  std::function<void(const Rows&)> enter;
};

/// Of a step whose decoder half (model/decoder_half.h) is computed on some rows alone: these. All ranks
/// have such a step at the same time.
struct DecoderRows {
  std::int64_t begin = 0;         ///< the half's first layer
  RaggedBatch batch;              ///< the rows as a batch of their own; perhaps none
  std::span<const RowPair> rows;  ///< ascending: each row's place in the step, and in `batch`
  bool any = false;               ///< there are some, on this rank or on others that wait for it
};

class Forward {
 public:
  /// All of them must outlive this, of `rank` its model; weights, cache and `arena`, which has
  /// forward_buffer_bytes(rank, max_rows, device.traits().activation_type) left, lie in the device's memory.
  /// Of a rank among others (`rank_config`) the weights are that rank's, and all ranks of `layout` make the
  /// same calls in the same order; those of a data-parallel group with the same batch.
  /// With o_proj_tp greater than tp, the batches of all data-parallel groups have as many rows.
  Forward(const RankConfig& rank, const WeightTree& weights, Device& device, const KvCache& cache,
          Precision precision, std::int64_t max_rows, Arena& arena, RankLayout layout = {});
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  /// Runs the main layers over a batch of at most max_rows rows; returns the residual streams [T, n, d] after
  /// the last one, valid until the next call. Cache rows of the batch's positions are written on the way.
  /// Where ranks share out rows these are the ones that the rank keeps, `kept`.
  /// `chosen`: of a batch with tokens that operations called before leave there (StepBatches::begin).
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen = {});

  /// The same in two halves: the step's rows go through the encoder half and leave entries for the other,
  /// through which `decoder.rows` go. Returns their streams alone. Stages before the decoder half know none.
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                   const DecoderRows& decoder);

  /// Runs the blocks of a draft head over a batch of at most max_rows rows, whose tokens and streams are what
  /// the head makes of them; all rows, also where ranks share them out. Returns the streams [T, n, d] after
  /// the last block, valid until the next call, as `run` does.
  [[nodiscard]] Activations<3> run_drafts(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                          const DraftRun& drafts);

  /// Writes the cache rows of a draft head's blocks at the positions of a batch, the latest one of `run`, and
  /// computes nothing else of the blocks.
  void record_drafts(const RaggedBatch& batch, std::span<const TokenId> chosen, const DraftRecord& record);

  /// Of the rows of the latest pass, padding included, those that this rank keeps.
  [[nodiscard]] RowRange kept() const { return layout_.kept(num_rows_); }
  /// Streams of all rows of the latest pass, where ranks share them out: `own` of each rank comes to its
  /// place in `all`, which has room for the rows of padding too. Returns all of them.
  [[nodiscard]] Activations<3> gathered(ConstActivations<3> own, const Activations<3>& all);
  /// The same of `left_mixing`.
  [[nodiscard]] Activations<2> gathered(ConstActivations<2> own, const Activations<2>& all);

  /// Prepares steps of `num_rows` rows, so that the device runs them as quickly as it can.
  void capture(std::int64_t num_rows);
  /// The same of a draft head's, in which nothing changes from call to call but the batch. Ranks of stages
  /// without its blocks call it with those that have them, and have no blocks in `drafts`.
  void capture_drafts(std::int64_t num_rows, const DraftRun& drafts);
  void capture_record(std::int64_t num_rows, const DraftRecord& record);

  /// [K, n] of the rows of the latest whole pass that this rank keeps: what collapses their streams. Empty
  /// where that has weights of its own.
  [[nodiscard]] Activations<2> left_mixing() const { return streams_.left_mixing(kept().size()); }

  /// Logits [R, V] of R rows of streams [R, n, d], R at most max_rows, as Heads::logits; by the model's own
  /// mixing and norm, or by a draft head's. `left`: rows of `left_mixing`, where it has any.
  void logits(ConstActivations<3> streams, ConstActivations<2> left, Activations<2> out) {
    logits(streams, left.empty() ? FinalMixing(context_.weights.hc_head) : FinalMixing(left),
           context_.weights.norm, out);
  }
  void logits(ConstActivations<3> streams, const FinalMixing& mixing, std::span<const float> norm,
              Activations<2> out) {
    heads_.logits(streams, mixing, norm, out);
  }
  /// In two parts, for a draft head that wants what is between: as Heads::collapse, of the streams that the
  /// latest pass returned, into the first rows of `out`, and Heads::logits.
  void collapse(ConstActivations<3> streams, const FinalMixing& mixing, Activations<2> out) {
    heads_.collapse(streams, mixing, rows(out, layout_.plan().shares_rows() ? num_rows_ : streams.extent(0)));
  }
  void logits(ConstActivations<2> collapsed, std::span<const float> norm, Activations<2> out) {
    heads_.logits(collapsed, norm, out);
  }

  /// Cuts steps in two from now on; the same bits. Made for `rows_of_two_batches` rows, of a plan with
  /// data-parallel attention whose experts get assignments (`overlap_violation`), on a device with two
  /// batches. Steps that are observed stay whole, and so do those of a draft head.
  void overlap_batches(const BatchOverlap& when) {
    overlap_.emplace(context_, streams_, attention_, experts_, when);
  }

  /// From now on passes over the main layers leave these means: what a draft head may want of layers. Steps
  /// are whole then. Before `capture`, and on all stages of a pipeline.
  void leave_means(StreamMeans means) { streams_.leave_means(std::move(means)); }

  /// Steps of many tokens use the copies that `experts`, which must outlive this, makes for them; null: there
  /// are none.
  void set_experts(ExpertStore* experts) { experts_.set_store(experts); }
  /// Where layers with tables of n-grams find the rows of a step's, which must outlive this.
  void set_engram(EngramStore* store) { streams_.engram().set_store(store); }
  /// In which order routed experts' products are added up, in all blocks and steps. Before `capture`.
  void set_expert_sums(ExpertSums sums) { experts_.set_sums(sums); }
  /// How many tokens were sent to each routed expert since the start, as rows of [blocks, E]; runs that are
  /// observed do not count. Waits for the device.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> expert_load() const {
    return experts_.router().load();
  }
  /// For a device that does not see the routing.
  void expect_load(ExpectedLoad expected) { experts_.expect_load(std::move(expected)); }

  /// From now on `observer` is called after each block of the main layers with its streams, null: no more:
  /// tests and the search for the first non-finite layer, which repeats a pass whose tokens are counted
  /// already.
  void observe_blocks(BlockObserver observer, void* context) { streams_.observe(observer, context); }

 private:
  void run_main(const Step& step);
  /// Blocks before `end`, and the entries of that one.
  void run_encoder(const Step& step, std::int64_t end);
  /// Blocks from `begin` on; `from`: where the rows of the encoder half are that go on.
  void run_decoder(const Step& step, std::int64_t begin, const HandedRows& from);
  void run_drafts(const Step& step, const DraftRun& drafts);
  void record_drafts(const Step& step, const DraftRecord& record);
  void run_blocks(const Pass& pass);
  /// Of a step's streams those that a caller gets: without padding where every rank has all rows.
  [[nodiscard]] Activations<3> returned(const Activations<3>& streams, const Step& step) const;

  RankLayout layout_;
  PassContext context_;
  ActivationArrays activations_;
  MessageArrays messages_;
  /// [rows, d] float32 sums over ranks: of an output projection, then of its block's experts.
  Activations<2> sums_;
  ResidualStreams streams_;
  Attention attention_;
  MixtureOfExperts experts_;
  Heads heads_;
  std::optional<Overlap> overlap_;  ///< none: steps are whole
  std::int64_t num_rows_ = 0;       ///< rows of the latest batch as the device has it
};

}  // namespace baleen
