/// The residual streams of a pass: where their values come from, how each half-block reads and changes them,
/// and where they go.                                                  (source: forward pass 3, 4.1 to 4.3)
///
///     begin            embed, or receive                                     tokens -> streams
///     enter_block      [engram,] hc_pre, rms_norm                            streams -> u, for attention
///     enter_experts    hc_post, hc_pre, rms_norm                             f, streams -> streams, u
///     leave_block      hc_post [, those of the next block's enter_block]     f -> streams [, u]
///     end              [send]
///
/// A pass may end before a block that goes on with some of its rows alone: `enter_entries` makes u of all
/// rows once more, for the block's entries, and `resume` brings those that go on to the pass which they are.
///
/// Where mixing lags (V4.1), `hc_pre` sums streams up by the weights of the half-block before, which go from
/// half to half; what the last one leaves collapses the streams (`left_mixing`).
///
/// A half-block is left and the next one entered in one operation, unless a caller wants the value between.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "forward/engram_module.h"
#include "forward/pass.h"
#include "forward/pass_arrays.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {

/// What a half-block, attention or experts, sees and what it returns: arrays for R rows.
struct HalfBlock {
  Activations<2> u;  ///< [R, d] mixed out of the streams and normed
  Fp8Rows u_fp8;     ///< u for FP8 products; of devices that have BF16 activations
  Activations<2> f;  ///< [R, d] what is added to the streams
};

/// Both halves of all blocks share one set of arrays.
struct HalfBlockArrays {
  HalfBlockArrays() = default;
  HalfBlockArrays(const RankConfig& rank, ActivationArrays& arrays);
  /// The rows from `begin` on, a multiple of kScaleRows.
  [[nodiscard]] HalfBlockArrays from_row(std::int64_t begin) const;

  HalfBlock half;       ///< before its norm, `u` is in the same place
  Activations<2> post;  ///< [R, n] float32 weights of `f` in each stream
  Activations<3> comb;  ///< [R, n, n] float32 weights of the streams in each other
  // Where mixing lags; otherwise empty.
  Activations<2> pre;     ///< [R, n] float32 weights of the streams in the next half-block's u
  Activations<2> first;   ///< [R, n] those of the first one's: the first stream alone
  Activations<2> handed;  ///< [R, n] those that rows of a pass which resumes have come with
};

struct StreamArrays {
  StreamArrays(const RankConfig& rank, ActivationArrays& arrays);

  Activations<3> main;    ///< [R, n, d] of the main layers
  Activations<3> drafts;  ///< [R, n, d] of a draft head's blocks
};

/// What is left of the streams of some layers for those who read it behind the pass: their mean.
struct StreamMeans {
  std::vector<std::int64_t> layers;  ///< as the model counts, ascending; of every stage
  bool of_inputs = false;            ///< the streams that enter each layer, not those that leave it
  /// [max_rows, layers d]: means of the n streams of each layer side by side, of the rows that the rank
  /// keeps. Stages hand on what was left before them.
  Activations<2> values;
};

/// Rows of a pass that ended before its step did, with which another pass goes on.
struct HandedRows {
  std::span<const RowPair> rows;   ///< ascending: each row's place in the first pass, and in the second
  std::span<const RowRange> kept;  ///< rows of the first pass that each rank of the group has
};

/// Called with the streams [K, n, d] of the rows that the rank keeps.
using BlockObserver = void (*)(void* context, std::int64_t block, ConstActivations<3> streams);

class ResidualStreams {
 public:
  ResidualStreams(const PassContext& context, ActivationArrays& arrays);

  [[nodiscard]] const StreamArrays& arrays() const { return arrays_; }
  /// What half-blocks see and return, of whole steps and of a pass.
  [[nodiscard]] const HalfBlock& half() const { return halves_.whole().half; }
  [[nodiscard]] const HalfBlock& half(const Pass& pass) const { return halves_.of(pass).half; }
  /// [num_rows, n] of the latest whole pass: what its streams are collapsed by. Empty where mixing does not
  /// lag.
  [[nodiscard]] Activations<2> left_mixing(std::int64_t num_rows) const {
    const Activations<2>& pre = halves_.whole().pre;
    return pre.empty() ? pre : rows(pre, num_rows);
  }
  /// Rows of `half().u` where attention finds those that this rank makes.
  [[nodiscard]] RowRange attention_rows(const Pass& pass) const;
  /// From now on second micro-batches have the rows from `first` on, a multiple of kScaleRows.
  void cut(std::int64_t first) { halves_.cut(first); }

  /// The memory of n-grams that some layers have.
  [[nodiscard]] EngramModule& engram() { return engram_; }
  /// On the first stage the tokens' embeddings, on others what the stage before sends.
  void begin(const Pass& pass);
  /// Sends the streams to the next stage, if there is one.
  void end(const Pass& pass);

  /// Sets u for the block's attention, of the rows that the rank keeps, unless leaving the block before has.
  void enter_block(std::int64_t block, const Pass& pass);
  /// Takes f of attention into the streams, and sets u for the experts.
  void enter_experts(std::int64_t block, const Pass& pass);
  /// Takes f of the experts into the streams; sets u for the next block's attention, if one follows and
  /// the streams between are not read.
  void leave_block(std::int64_t block, const Pass& pass);

  /// Behind the last block of a pass, for `block`, which follows: u is set for the block's attention, of all
  /// rows. Streams, and what collapses them, stay for `resume`.
  void enter_entries(std::int64_t block, const Pass& pass);
  /// Before the first block of a pass that goes on with rows of such a one: they come to `arrays().drafts`,
  /// with what collapses them, all of them on every rank.
  void resume(const Pass& pass, const HandedRows& from);

  void leave_means(StreamMeans means) { means_ = std::move(means); }
  /// From now on `observer`, if it is set, is called after each block.
  void observe(BlockObserver observer, void* context) {
    observer_ = observer;
    observer_context_ = context;
  }
  [[nodiscard]] bool is_observed() const { return observer_ != nullptr; }
  /// The value after some block is wanted, of whole steps.
  [[nodiscard]] bool is_read_between_blocks() const { return is_observed() || !means_.layers.empty(); }

 private:
  /// Whether streams are read or changed between the block and the one before it.
  [[nodiscard]] bool stops_before(std::int64_t block) const;
  /// At which place among the means that of the block's streams is wanted; none: nowhere.
  [[nodiscard]] std::optional<std::int64_t> mean_of(std::int64_t block) const;
  void take_mean(std::int64_t block, const Pass& pass) const;
  /// As one stage hands it on, [K, 1, n]; empty where mixing does not lag.
  [[nodiscard]] Activations<3> handed_mixing(const Pass& pass) const;
  /// As one stage hands them on, [K, 1, layers d]; empty where no layer before `layer` leaves its mean.
  [[nodiscard]] Activations<3> means_before(std::int64_t layer, const Pass& pass) const;

  // Arguments of the operations. `own`: rows of `u` that this rank makes.
  [[nodiscard]] HcPreArgs mixed(const Pass& pass, const HcWeights& weights, const RowRange& own,
                                bool is_first) const;
  [[nodiscard]] RmsNormArgs normed(const Pass& pass, std::span<const float> weight, const RowRange& own,
                                   bool quantises) const;
  [[nodiscard]] HcPreArgs mixed_for_attention(std::int64_t block, const Pass& pass) const;
  [[nodiscard]] RmsNormArgs normed_for_attention(std::int64_t block, const Pass& pass) const;
  [[nodiscard]] HcPostArgs left(const Pass& pass) const;

  PassContext context_;
  EngramModule engram_;
  StreamArrays arrays_;
  PerMicroBatch<HalfBlockArrays> halves_;
  StreamMeans means_;
  BlockObserver observer_ = nullptr;
  void* observer_context_ = nullptr;
};

}  // namespace baleen
