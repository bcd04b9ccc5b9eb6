/// A checkpoint's tensors bound to the places where the forward pass wants them. What is held as it is stored
/// stays where the file's map has it; what is held in another form (norms, FP8 block scales, hash tables), or
/// lies at an address that its readers cannot take, is converted or copied into memory of ours.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/model_folder.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"

namespace baleen {

/// Owns the maps and the converted vectors; not movable, because everything points into it.
class ModelWeights final {
 public:
  /// Reads headers and small tensors; checks every tensor against the config and every scale for NaN. Where
  /// scales are so many that reading them would cost more than the first token, those of routed experts are
  /// left out; a NaN among them shows in the logits, whose failure names the layer. Throws `Error` with a
  /// sentence for whatever does not fit.
  explicit ModelWeights(const std::filesystem::path& folder);
  explicit ModelWeights(ModelFolder folder);
  /// The same of an open checkpoint, whose tensors fit `config`.
  ModelWeights(ModelConfig config, Checkpoint checkpoint);
  ModelWeights(const ModelWeights&) = delete;
  ModelWeights& operator=(const ModelWeights&) = delete;

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const WeightTree& tree() const { return tree_; }
  [[nodiscard]] const Checkpoint& checkpoint() const { return checkpoint_; }

  /// Bytes of the tensors that are used (mapped), and of what was converted or realigned (owned).
  [[nodiscard]] std::int64_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] std::int64_t owned_bytes() const { return owned_bytes_; }

 private:
  /// Of a checkpoint whose tensors fit the config.
  void bind();
  /// Where the file has it, or a converted or realigned copy.
  [[nodiscard]] const std::byte* array(const HeldArray& array);
  void check_scales(const std::vector<TensorSpec>& table, const StorageFormats& formats) const;

  ModelConfig config_;
  Checkpoint checkpoint_;
  std::deque<std::vector<std::byte>> owned_;
  WeightTree tree_;
  std::int64_t mapped_bytes_ = 0;
  std::int64_t owned_bytes_ = 0;
};

}  // namespace baleen
