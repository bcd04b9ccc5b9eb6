/// Attention of a block: projections of queries and of what the cache keeps, compressors, the indexer's
/// choice, attention over cached rows, the output projection.                  (source: forward pass 5)
///
///     linear   wq_a, wkv [, compressor wkv, wgate [, indexer wkv, wgate, weights_proj]]
///     rms_norm, linear wq_b [, indexer wq_b], rms_norm per head, rope         -> q
///     kv_store                                                                -> window page
///     [compressor [, compressor of the indexer, indexer]]                     -> entries, keys, selection
///     sparse_attention, rope back, output projection                          -> f
///
/// In brackets: layers that compress, the inner ones those with an indexer. Projections of the same x are one
/// call of `linear`, so that it is packed once.
///
/// What a layer does is what its `LayerAttention` says. Where layers share entries (V4.1), those that make
/// some make latents of them, and keys of the latents:
///
///     latent, linear wk, entry_store                                          -> entries, keys
///
/// others read the pools of an earlier layer's block. A selection, and the blocks of entries among which
/// later layers select, stay in their arrays until another layer of the pass makes its own.
#pragma once

#include <cstdint>
#include <vector>

#include "forward/output_projection.h"
#include "forward/pass.h"
#include "forward/pass_arrays.h"
#include "forward/residual_streams.h"
#include "forward/rotation_angles.h"
#include "model/layer_attention.h"
#include "ops/indexer/indexer.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/linear.h"

namespace baleen {

/// Arrays for R rows: cache inputs (kv, main_*, index_kv, index_gate, latent*, index_key) of all rows of the
/// data-parallel group, the others of those whose queries the rank attends with. A value that an operation
/// changes in place has one array for before and after.
struct AttentionArrays {
  AttentionArrays() = default;
  AttentionArrays(const RankConfig& rank, ActivationArrays& arrays);
  /// The rows from `first` on, a multiple of kScaleRows.
  [[nodiscard]] AttentionArrays from_row(std::int64_t first) const;

  Activations<2> q_latent;         ///< [R, R_q] of wq_a; then normed
  Fp8Rows q_latent_fp8;            ///< [R, R_q] the normed ones for FP8 products; of devices with BF16
  Activations<2> q;                ///< [R, H c] of wq_b; then normed and rotated
  Activations<2> kv;               ///< [R, c] before the norm that the cache's rows have
  Activations<2> attended;         ///< [R, H c] rotated back
  Activations<2> main_kv;          ///< [R, 2 c] compressor products (c of them with ratio 128), float32
  Activations<2> main_gate;        ///< [R, 2 c] float32
  Activations<2> index_kv;         ///< [R, 2 c_I] float32
  Activations<2> index_gate;       ///< [R, 2 c_I] float32
  Activations<2> index_q;          ///< [R, H_I c_I]
  Activations<2> index_weights;    ///< [R, H_I]
  View<std::int32_t, 2> selected;  ///< [R, K_I] entries that the indexer chose
  // Where layers share entries; otherwise empty.
  Activations<2> latent_kv;  ///< [R, c] products of ratio 1; those of ratio 2 are in main_kv, main_gate
  Activations<2> latent;     ///< [R, c]
  Activations<2> index_key;  ///< [R, c_I] before the norm that keys have
  View<std::int32_t, 2> candidates;  ///< [R, blocks] of entries, chosen by one layer for later ones
};

class Attention {
 public:
  /// `sums`: as `OutputProjection` has them.
  Attention(const PassContext& context, ActivationArrays& arrays, MessageArrays& messages,
            const Activations<2>& sums);

  /// From now on second micro-batches have the rows from `first` on, a multiple of kScaleRows.
  void cut(std::int64_t first);

  /// Rotation angles of the positions of a pass, before its first block.
  void begin(const Pass& pass) { angles_.prepare(pass); }
  /// Sets half.f by half.u and writes the cache rows of the batch's positions. Of u there are the rows that
  /// the rank attends with; with sequence parallelism those that it keeps, at their places among all, and the
  /// others come to theirs. Of f the rows that it keeps are set, from row 0 on.
  void run(std::int64_t block, const Pass& pass, const HalfBlock& half);
  /// Of a block without entries: writes the same cache rows, and computes nothing else.
  void store(std::int64_t block, const Pass& pass, const HalfBlock& half);
  /// Of a block that makes latents: writes the entries and index keys that the batch's positions complete,
  /// and computes nothing else.
  void store_entries(std::int64_t block, const Pass& pass, const HalfBlock& half);

 private:
  /// One block of a pass.
  struct Call {
    std::int64_t block;
    const Pass& pass;
    const AttentionWeights& weights;
    const LayerAttention shape;
    const AttentionArrays& values;

    /// The block makes entries, which rows of a pass that resumes have left in the one before.
    [[nodiscard]] bool makes_entries() const {
      return shape.makes_entries() && !(pass.resumes && block == pass.begin);
    }
    [[nodiscard]] RowRange attending() const { return pass.shares.attending(); }
    [[nodiscard]] std::int64_t num_attending() const { return attending().size(); }
  };

  [[nodiscard]] Call call(std::int64_t block, const Pass& pass);
  /// Products of u that entries are made of.
  [[nodiscard]] std::vector<LinearOutput> entry_products(const Call& call) const;
  /// u to the query's latent, and to what the cache is made from.
  void project(const Call& call, const HalfBlock& half);
  /// u by these matrices, the cache's alone or some more.
  void project(const Call& call, const HalfBlock& half, std::span<const LinearOutput> outputs);
  /// Where the rank's rows of a value that the cache is made from lie among those of the batch.
  [[nodiscard]] Activations<2> placed(const Call& call, const Activations<2>& all, std::int64_t width) const;
  /// With context parallelism: what the cache of every rank needs of the rows of others, for its window's
  /// rows and for entries.
  void gather_window_inputs(const Call& call);
  void gather_entry_inputs(const Call& call);
  /// Norms the query's latent, and kv into the window's cache rows.
  void norm_and_store(const Call& call);
  [[nodiscard]] KvStoreArgs stored(const Call& call) const;
  /// The latent to queries of all heads, normed and rotated, and to those of the indexer.
  void project_queries(const Call& call);
  /// Where products of u become entries: float32 where several positions are pooled.
  [[nodiscard]] const Activations<2>& entry_inputs(const Call& call) const;
  /// Pools entries, and their index keys.
  void compress(const Call& call);
  /// Entries, and their index keys, of latents.
  void store_latents(const Call& call);
  /// The blocks of entries that a layer's indexer chooses, or is given.
  [[nodiscard]] static IndexBlocks blocks_of(const Call& call);
  /// The entries that each query attends to.
  void select(const Call& call);
  void attend(const Call& call);

  PassContext context_;
  PerMicroBatch<AttentionArrays> arrays_;
  RotationAngles angles_;
  OutputProjection output_;
};

}  // namespace baleen
