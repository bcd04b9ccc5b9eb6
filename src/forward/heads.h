/// The end of a pass: residual streams to logits over the vocabulary, of the model's own head and of draft
/// heads.                                                          (source: forward pass 3, 4.4)
///
///     hc_head, rms_norm [, all_gather of rows], lm_head [, all_gather of the vocabulary]
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "forward/pass.h"
#include "forward/pass_arrays.h"
#include "ops/hc_head/hc_head.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {

struct HeadMessages {
  HeadMessages(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays);

  Activations<2> logits;  ///< [R, V'] float32 of this rank's part of the vocabulary; empty where it has all
};

/// What sums the streams of rows up at the end: weights of its own, or where mixing lags what the last
/// half-block left.
struct FinalMixing {
  FinalMixing(const HcWeights& own) : weights(own) {}                // NOLINT(google-explicit-constructor)
  FinalMixing(ConstActivations<2> left) : given(std::move(left)) {}  // NOLINT(google-explicit-constructor)

  HcWeights weights;
  ConstActivations<2> given;  ///< [T, n]; empty: by `weights`
};

class Heads {
 public:
  /// `u`: [R, d], lent while `logits` lasts.
  Heads(const PassContext& context, MessageArrays& messages, const Activations<2>& u)
      : context_(context), messages_(context.rank, context.layout, messages), u_(u) {}

  /// Logits [T, V] of T rows of streams [T, n, d] by `mixing`, `norm` and the model's projection. Where ranks
  /// share out rows, `streams` are those of T that the rank keeps; every rank of a group that splits the
  /// vocabulary gets all logits.
  void logits(ConstActivations<3> streams, const FinalMixing& mixing, std::span<const float> norm,
              Activations<2> out);
  /// Rows [T, d] mixed out of the streams, before the norm. Where ranks share out rows, every rank of the
  /// group gets all of them.
  void collapse(ConstActivations<3> streams, const FinalMixing& mixing, Activations<2> out);
  /// Logits [T, V] of such rows, which every rank has.
  void logits(ConstActivations<2> collapsed, std::span<const float> norm, Activations<2> out);

 private:
  [[nodiscard]] HcHeadArgs mixed(ConstActivations<3> streams, const FinalMixing& mixing,
                                 Activations<2> out) const;
  [[nodiscard]] RmsNormArgs normed(ConstActivations<2> x, std::span<const float> norm,
                                   Activations<2> out) const;
  void project(const Activations<2>& x, const Activations<2>& out);

  PassContext context_;
  HeadMessages messages_;
  Activations<2> u_;
};

}  // namespace baleen
