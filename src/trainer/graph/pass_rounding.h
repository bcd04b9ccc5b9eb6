/// How values are rounded between the operations of a pass: not at all, or as the engine's `released`
/// precision does. Matrices are not rounded here: whoever rounds passes weights that are
/// (trainer/run/stored_weights.h). The backward is that of the plain operations at the rounded values, and a
/// rounding passes its gradient as if it were not there.
/// (source: training 8; forward pass 2.3, 2.5, 5.1 to 5.5)
#pragma once

#include <cstdint>
#include <optional>

#include "model/config.h"
#include "trainer/graph/activations.h"

namespace baleen::graph {

/// All functions change [rows, width] values in place, on the calling thread, and do nothing where the pass
/// does not round. float64 values are rounded by way of float32.
template <class T>
class PassRounding {
 public:
  /// `config` outlives it.
  PassRounding(const ModelConfig& config, bool as_released) : config_(config), active_(as_released) {}

  [[nodiscard]] bool active() const { return active_; }
  /// Whether matrices of `format` multiply inputs in FP8.
  [[nodiscard]] bool rounds_inputs(WeightFormat format) const;

  /// What an operation returns: to BF16.
  void result(std::int64_t rows, std::int64_t width, T* x) const;
  /// What matrices of `format` multiply: to FP8 per 128 (of DeepSeek-V4.1 32) where they are FP8 or FP4.
  void input(WeightFormat format, std::int64_t rows, std::int64_t width, T* x) const;
  /// Rows of the cache [rows, head_dim], rotated: FP8 per 64 with BF16 for the rotated values, or `grouped`.
  void latent(const std::optional<GroupedRow>& grouped, std::int64_t rows, T* x) const;
  /// Queries and keys of an indexer [rows, index_head_dim], rotated: of pooled entries Hadamard transform and
  /// BF16, then FP4 per 32.
  void index_vectors(EntryForm form, std::int64_t rows, T* x) const;
  /// Gradients of what index_vectors returned become those of what it read: the transform is its own inverse.
  void index_vectors_backward(EntryForm form, std::int64_t rows, T* dx) const;
  /// Weights of an indexer's heads [rows, heads]: BF16 before and after their constant, which is then divided
  /// out again.
  void index_weights(std::int64_t rows, T* x) const;

 private:
  const ModelConfig& config_;
  bool active_;
};

}  // namespace baleen::graph
