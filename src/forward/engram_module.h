/// What some layers do before their attention (V4.1): they read rows of a table of n-grams, make of them a
/// key for each residual stream and a value, and add to each stream the value as far as its key says.
/// (source: releases specification 2.7, 9.C)
///
///     begin   rows of the step's n-grams come to where the device reads them    (engram/engram_store.h)
///     run     engram_lookup, linear wkv, engram                                  rows, streams -> streams
///
/// Rows depend on tokens alone: the state of a sequence is its last tokens, which the batch brings
/// (`SequenceSlice::tokens_before`).
#pragma once

#include <cstdint>
#include <optional>

#include "engram/engram_store.h"
#include "forward/pass.h"
#include "forward/pass_arrays.h"

namespace baleen {

/// Arrays for R rows; empty where no layer has a table.
struct EngramArrays {
  EngramArrays(const RankConfig& rank, ActivationArrays& arrays);

  Activations<2> values;     ///< [R, H w] a token's rows side by side
  Activations<2> projected;  ///< [R, (n + 1) d]
};

class EngramModule {
 public:
  EngramModule(const PassContext& context, ActivationArrays& arrays);

  /// Where rows come from, which outlives this; null on devices that compute nothing.
  void set_store(EngramStore* store) { store_ = store; }
  /// Brings the rows of a step's tokens, which the host knows, before its operations.
  void begin(const Step& step) const;
  /// Whether the block has a table.
  [[nodiscard]] bool has(std::int64_t block) const { return table_of(block).has_value(); }
  /// Changes the streams of the rows that the rank keeps, for a block that has one.
  void run(std::int64_t block, const Pass& pass) const;

 private:
  /// Rows [begin, end) of the step, of a table.
  [[nodiscard]] EngramLookupArgs lookup(std::size_t table, const RowRange& own,
                                        const Activations<2>& values) const;
  [[nodiscard]] std::optional<std::size_t> table_of(std::int64_t block) const {
    return context_.config.engram_table(context_.rank.model_block(block));
  }

  PassContext context_;
  EngramArrays arrays_;
  EngramStore* store_ = nullptr;
};

}  // namespace baleen
