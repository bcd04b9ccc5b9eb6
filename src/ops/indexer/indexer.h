/// Indexer: picks the compressed entries that a query reads. (source: forward pass 5.5, 5.6; releases
/// specification 2.5, 9.C)
///
///     q <- rotate, Hadamard (Sylvester order, times dim^-1/2) if keys were, FP4 in blocks of 32 (`released`)
///     w  = bf(head_weights * dim^-1/2 * H^-1/2)
///     score(t, j) = sum_h w[t, h] * relu(q[t, h] . k_j),  j < (position + 1) / ratio;   float32
///     selected[t] = the top_k best j, ascending; lower j wins ties; all if fewer are visible; rest -1
///
/// Layers may select among blocks of entries that one of them has chosen:
///
///     chosen[t]   = the best blocks by the maximum of their visible scores, ascending; the block of the
///                   newest visible entry always; the lower block wins ties; all if there are fewer; rest -1.
///                   The layer's own selection is among all entries.
///     selected[t] = with blocks given, the same among their visible entries alone
///
/// Streams over the keys: the memory does not grow with the context. A NaN score counts as the lowest.
#pragma once

#include <cstdint>

#include "numeric/index_key.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// Blocks of consecutive entries, chosen or given; at most one of the two.
struct IndexBlocks {
  std::int64_t size = 0;              ///< entries of a block; 0: there are none
  View<std::int32_t, 2> chosen;       ///< out [T, count]
  View<const std::int32_t, 2> given;  ///< [T, count], as another layer of the same step has chosen them

  [[nodiscard]] bool are_chosen() const { return chosen.extent(1) > 0; }
  [[nodiscard]] bool are_given() const { return given.extent(1) > 0; }
  [[nodiscard]] std::int64_t count() const { return are_chosen() ? chosen.extent(1) : given.extent(1); }
};

struct IndexerArgs {
  ConstActivations<3> q;             ///< [T, H, dim = 128], the output of "indexer.wq_b"
  ConstActivations<2> head_weights;  ///< [T, H], the output of "indexer.weights_proj"
  ConstActivations<2> cosine;        ///< [T, rotary_dim / 2]
  ConstActivations<2> sine;
  Precision precision = Precision::kReleased;
  RaggedBatch batch;
  std::int64_t first_row = 0;  ///< where the rows begin in the step's batch, of which `batch` may be a part
  IndexKeyPool keys;           ///< entries of this step already stored
  View<std::int32_t, 2> selected;  ///< out [T, top_k]
  int ratio = 4;                   ///< positions of an entry
  bool hadamard = true;            ///< keys were transformed before they were stored
  IndexBlocks blocks{};
};

void indexer_ref(const IndexerArgs& args);
void indexer_cpu(const IndexerArgs& args, CpuContext& context);
[[nodiscard]] OpCost indexer_cost(const IndexerArgs& args);
[[nodiscard]] OpCost indexer_backward_cost(const IndexerArgs& args);
/// `num_blocks`: that a query chooses at most.
[[nodiscard]] std::int64_t indexer_scratch_bytes(std::int64_t num_heads, std::int64_t dim, std::int64_t top_k,
                                                 int num_threads, std::int64_t num_blocks = 0);

namespace ops {

struct Indexer {
  using Args = IndexerArgs;
  static constexpr std::string_view kName = "indexer";
  [[nodiscard]] static OpCost cost(const IndexerArgs& args) { return indexer_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const IndexerArgs& args) { return indexer_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const IndexerArgs& args);
  static void accesses(const IndexerArgs& args, Accesses& to);
  static void check(const IndexerArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Indexer>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
