/// Latents of DeepSeek-V4.1: one for every `ratio` positions, of which `entry_store` makes a layer's entries
/// and index keys.                                                  (source: releases specification 2.5, 9.C)
///
///     ratio 2   per channel a softmax over the gates of two tokens weighs their values, in float32: no
///               biases of places, no overlap
///     ratio 1   the token's own value
///     latent <- norm(bf(value))
///
/// The latent of entry j is in the row of the position that completes it, r (j + 1) - 1. Other rows are
/// zeros, and so are those of entries that exist already.
///
/// A later step may need the first token of a pair: it stays in a ring per sequence, token t in row t mod
/// ring. Latents are made from the step's own rows and, for positions before it, from the ring: the same
/// numbers however the prompt was cut. A page ends with a pair, so nothing crosses its end.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/dtype.h"
#include "ops/compressor/compressor.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct LatentArgs {
  /// [T, c] product with "compressor.wkv": float32 and unrounded with ratio 2, else rounded as activations
  /// are.
  ConstActivations<2> kv;
  ConstActivations<2> gate;            ///< [T, c] float32, product with "compressor.wgate"; with ratio 1 none
  std::span<const float> norm_weight;  ///< [c], "compressor.norm"
  float eps = 1e-20F;
  int ratio = 2;  ///< 1 or 2
  Precision precision = Precision::kReleased;
  RaggedBatch batch;
  CompressorState state;  ///< rings, width c; with ratio 1 none
  Activations<2> latent;  ///< out [T, c]; not kv
};

void latent_ref(const LatentArgs& args);
void latent_cpu(const LatentArgs& args, CpuContext& context);
[[nodiscard]] OpCost latent_cost(const LatentArgs& args);

namespace ops {

struct Latent {
  using Args = LatentArgs;
  static constexpr std::string_view kName = "latent";
  [[nodiscard]] static OpCost cost(const LatentArgs& args) { return latent_cost(args); }
  [[nodiscard]] static CallShape shape(const LatentArgs& args);
  static void accesses(const LatentArgs& args, Accesses& to);
  static void check(const LatentArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Latent>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
