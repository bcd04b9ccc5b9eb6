/// The choices of one pass of a training graph.
#pragma once

namespace baleen {

/// What may differ from one pass to the next.
struct PassOptions {
  double mtp_weight = 0.3;  ///< weighs the MTP blocks' loss; 0: the MTP blocks do not run
  bool recompute = true;    ///< keep the streams between blocks only, and compute each block again for its
                            ///< backward: less memory, the same bits
  bool dense_attention = false;  ///< ratio-4 layers attend to all complete entries, indexers choose nothing
  double indexer_weight = 0;  ///< weighs the indexers' loss, which reaches their parameters only; 0: no loss
  bool indexers_alone = false;  ///< nothing but the indexers gets gradients
  double balance_weight = 0;    ///< weighs the sequence-wise balance loss of score-routed layers; 0: no loss
  bool plain_residual = false;  ///< one residual stream, to which half-blocks add; the model has no mixings
  /// Values between operations are rounded as in the engine's `released` precision; the weights that are
  /// passed are then those that a checkpoint holds.
  bool rounds_as_released = false;
  bool bf16_products = false;  ///< dense products take operands rounded to BF16, but those of routers,
                               ///< mixings and compressors, which the engine keeps in float32
  bool scaled_rope =
      false;  ///< layers with a ratio rotate by the scaled (YaRN) frequencies, as inference does

  bool operator==(const PassOptions&) const = default;
};

/// The same pass with the main model's loss alone, for measuring.
[[nodiscard]] inline PassOptions main_loss_only(PassOptions options) {
  options.mtp_weight = 0;
  options.indexer_weight = 0;
  options.indexers_alone = false;
  options.balance_weight = 0;
  return options;
}

}  // namespace baleen
