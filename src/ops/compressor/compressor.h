/// Compressor: pools every `ratio` tokens into one cache entry.             (source: forward pass 5.4)
///
/// Token t contributes k_t = kv[t] and g_t = gate[t] + ape[t mod ratio]. Ratio 128: entry j is the
/// softmax-weighted sum (over rows, per channel) of its own 128 tokens. Ratio 4 overlaps: width 2h; eight
/// rows, the first halves of the tokens of block j - 1 and the second halves of those of block j; block -1
/// counts as (0, -inf). Then e <- norm(bf(pooled)), its last rotary_dim values rotated at position ratio * j,
/// and stored as a latent row, or, for the indexer, after a Hadamard transform, as an index key.
///
/// Rows that a later step needs (the unfinished block and, for ratio 4, the block before it) stay in a ring
/// per sequence: token t in row t mod ring, gate with `ape` added. Entries that complete in this step are
/// made from the step's own rows and, for positions before it, from the ring: the same numbers however the
/// prompt was cut.
///
/// A ring belongs to one sequence, a page may be continued by many. So what an overlapping compressor carries
/// across the end of a page is also kept beside its window rows: of the page's last 4 tokens the first
/// halves, which the next block pools. Ratio 128 carries nothing: no block is open there.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/index_key.h"
#include "numeric/latent_row.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// One layer's rings: slot s starts at base + s * slot_stride; kv rows [ring_rows, width], then gate rows.
struct CompressorState {
  float* base = nullptr;
  std::int64_t slot_stride = 0;  ///< floats between sequences
  std::int64_t ring_rows = 0;    ///< >= ratio (128) or 2 * ratio (4); a multiple of ratio
  std::int64_t width = 0;        ///< w * h
  std::int64_t num_slots = 0;    ///< 0: not known

  [[nodiscard]] float* kv_row(std::int64_t slot, std::int64_t position) const {
    return base + slot * slot_stride + position % ring_rows * width;
  }
  [[nodiscard]] float* gate_row(std::int64_t slot, std::int64_t position) const {
    return kv_row(slot, position) + ring_rows * width;
  }
};

/// Positions of a page whose rows the page after it needs.
inline constexpr std::int64_t kOverlapRows = 4;

/// One layer's overlap rows: window page p starts at base + p * page_stride; kv [4, width], then gate [4,
/// width].
struct CompressorOverlap {
  float* base = nullptr;
  std::int64_t page_stride = 0;  ///< floats between window pages
  std::int64_t width = 0;        ///< h
  std::int64_t num_pages = 0;    ///< 0: not known

  /// `position` is one of the last 4 of its page.
  [[nodiscard]] float* kv_row(PageId page, std::int64_t position) const {
    return base + static_cast<std::int64_t>(page) * page_stride + position % kOverlapRows * width;
  }
  [[nodiscard]] float* gate_row(PageId page, std::int64_t position) const {
    return kv_row(page, position) + kOverlapRows * width;
  }
};

struct CompressorArgs {
  ConstActivations<2> kv;  ///< [T, w h] float32, unrounded product with "compressor.wkv"
  Activations<2>
      gate;  ///< [T, w h] float32, product with "compressor.wgate"; not to be used after the call, which may
             ///< add `ape` in place
  View<const float, 2> ape;            ///< [ratio, w h]
  std::span<const float> norm_weight;  ///< [h]
  float eps = 1e-6F;
  std::span<const float> frequencies;  ///< [rotary_dim / 2] of the layer
  int ratio = 4;                       ///< 4 (overlapping, w = 2) or 128 (w = 1)
  Precision precision = Precision::kReleased;
  RaggedBatch batch;
  CompressorState state;
  CompressorOverlap overlap;  ///< overlap rows, found through window_pages; base null: not kept
  /// Exactly one of the two has a base: entry j is row j % rows_per_page of page pages[j / rows_per_page].
  LatentPool latent;       ///< main compressor
  IndexKeyPool index_key;  ///< the indexer's own compressor
};

void compressor_ref(const CompressorArgs& args);
void compressor_cpu(const CompressorArgs& args, CpuContext& context);
[[nodiscard]] OpCost compressor_cost(const CompressorArgs& args);
[[nodiscard]] OpCost compressor_backward_cost(const CompressorArgs& args);
[[nodiscard]] std::int64_t compressor_scratch_bytes(std::int64_t head_dim, int num_threads);

namespace ops {

struct Compressor {
  using Args = CompressorArgs;
  static constexpr std::string_view kName = "compressor";
  [[nodiscard]] static OpCost cost(const CompressorArgs& args) { return compressor_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const CompressorArgs& args) {
    return compressor_backward_cost(args);
  }
  [[nodiscard]] static CallShape shape(const CompressorArgs& args);
  static void accesses(const CompressorArgs& args, Accesses& to);
  static void check(const CompressorArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Compressor>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
