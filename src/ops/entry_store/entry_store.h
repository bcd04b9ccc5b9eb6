/// Entries and index keys of a step's latents: norm, rotate, quantise, scatter into the pages.
/// (source: releases specification 2.5, 9.C)
///
///     entry j   rotate(latent), stored as a latent row
///     key j     rotate(norm(wk latent)), stored as an index key; no Hadamard transform
///
/// Both are rotated at position r j, the last rotary_dim values of each. The product with wk is of the latent
/// before its rotation. Rows that complete no entry, or one that exists already, are left out.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/index_key.h"
#include "numeric/latent_row.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct EntryStoreArgs {
  ConstActivations<2> latent;  ///< [T, c] of `latent`, in the rows of the positions that complete entries
  ConstActivations<2> key;     ///< [T, dim], its product with "indexer.wk"
  std::span<const float> key_norm;  ///< [dim], "indexer.k_norm"
  float eps = 1e-20F;
  std::span<const float> frequencies;  ///< [rotary_dim / 2] of the layer
  int ratio = 2;                       ///< positions of an entry
  RaggedBatch batch;
  /// Entry j is row j % rows_per_page of page pages[j / rows_per_page]; the formats carry the precision.
  LatentPool entries;
  IndexKeyPool index_keys;
};

void entry_store_ref(const EntryStoreArgs& args);
void entry_store_cpu(const EntryStoreArgs& args, CpuContext& context);
[[nodiscard]] OpCost entry_store_cost(const EntryStoreArgs& args);
[[nodiscard]] std::int64_t entry_store_scratch_bytes(std::int64_t head_dim, int num_threads);

namespace ops {

struct EntryStore {
  using Args = EntryStoreArgs;
  static constexpr std::string_view kName = "entry_store";
  [[nodiscard]] static OpCost cost(const EntryStoreArgs& args) { return entry_store_cost(args); }
  [[nodiscard]] static CallShape shape(const EntryStoreArgs& args);
  static void accesses(const EntryStoreArgs& args, Accesses& to);
  static void check(const EntryStoreArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<EntryStore>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
