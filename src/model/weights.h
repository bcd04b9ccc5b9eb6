/// A checkpoint's tensors bound to the places where the forward pass wants them. Matrices stay packed where
/// the file's map has them; small vectors (norms, sinks, biases, FP8 block scales, hash tables) are widened
/// into memory of ours.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/tensor_table.h"
#include "numeric/bf16.h"
#include "ops/experts/experts.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/matmul/weight_matrix.h"
#include "tensor/view.h"

namespace baleen {

/// "compressor.*": ratio r, entries of width h, w = 2 for r = 4 and 1 for r = 128.
struct CompressorWeights {
  View<const float, 2> ape;     ///< [r, w h]
  WeightMatrix wkv;             ///< [w h, d] BF16
  WeightMatrix wgate;           ///< [w h, d] BF16
  std::span<const float> norm;  ///< [h]
};

struct IndexerWeights {
  WeightMatrix wq_b;          ///< [H_I c_I, R_q]
  WeightMatrix weights_proj;  ///< [H_I, d] BF16
  CompressorWeights compressor;
};

/// "attn.*"
struct AttentionWeights {
  std::span<const float> sink;     ///< [H]
  WeightMatrix wq_a;               ///< [R_q, d]
  std::span<const float> q_norm;   ///< [R_q]
  WeightMatrix wq_b;               ///< [H c, R_q]
  WeightMatrix wkv;                ///< [c, d]
  std::span<const float> kv_norm;  ///< [c]
  WeightMatrix wo_a;               ///< [G R_o, H c / G]
  WeightMatrix wo_b;               ///< [d, G R_o]
  CompressorWeights compressor;    ///< ratio 4 and 128
  IndexerWeights indexer;          ///< ratio 4
};

/// "ffn.*"
struct MoeWeights {
  WeightMatrix gate;                       ///< [E, d] BF16
  std::span<const float> bias;             ///< [E], empty in hash layers
  View<const std::int32_t, 2> hash_table;  ///< [V, k], empty elsewhere
  std::vector<ExpertWeights> routed;
  ExpertWeights shared;
  bool has_shared = false;
};

/// "layers.N.*" or "mtp.N.*"
struct BlockWeights {
  HcWeights hc_attn;
  HcWeights hc_ffn;
  std::span<const float> attn_norm;
  std::span<const float> ffn_norm;
  AttentionWeights attention;
  MoeWeights moe;
};

/// What a MTP block has beside its block.
struct MtpWeights {
  WeightMatrix e_proj;           ///< [d, d]
  WeightMatrix h_proj;           ///< [d, d]
  std::span<const float> enorm;  ///< [d]
  std::span<const float> hnorm;  ///< [d]
  std::span<const float> norm;   ///< [d]
  HcWeights hc_head;
};

/// Owns the maps and the widened vectors; not movable, because everything points into it.
class ModelWeights {
 public:
  /// Reads headers and small tensors; checks every tensor against the config and every scale for NaN. Where
  /// scales are so many that reading them would cost more than the first token, those of routed experts are left
  /// out; a NaN among them shows in the logits, whose failure names the layer. Throws `Error` with a sentence for whatever does not fit.
  explicit ModelWeights(const std::filesystem::path& folder);
  ModelWeights(const ModelWeights&) = delete;
  ModelWeights& operator=(const ModelWeights&) = delete;

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] View<const Bf16Bits, 2> embedding() const { return embedding_; }
  [[nodiscard]] const WeightMatrix& head() const { return head_; }
  [[nodiscard]] std::span<const float> norm() const { return norm_; }
  [[nodiscard]] const HcWeights& hc_head() const { return hc_head_; }
  [[nodiscard]] const Checkpoint& checkpoint() const { return checkpoint_; }
  /// Main layers, then MTP blocks.
  [[nodiscard]] const BlockWeights& block(std::int64_t block) const {
    return blocks_[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] const MtpWeights& mtp(std::int64_t depth) const {
    return mtp_[static_cast<std::size_t>(depth)];
  }

  /// Bytes of the checkpoint's tensors (mapped), and of what was widened or realigned (owned).
  [[nodiscard]] std::int64_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] std::int64_t owned_bytes() const { return owned_bytes_; }

 private:
  [[nodiscard]] std::span<const float> widened(const TensorInfo& tensor);
  [[nodiscard]] std::span<const float> vector(const std::string& name);
  [[nodiscard]] WeightMatrix matrix(const std::string& stem);
  [[nodiscard]] HcWeights hyper_connection(const std::string& stem);
  [[nodiscard]] CompressorWeights compressor(const std::string& prefix);
  [[nodiscard]] AttentionWeights attention(const std::string& prefix, std::int64_t block);
  [[nodiscard]] MoeWeights moe(const std::string& prefix, std::int64_t block);
  [[nodiscard]] ExpertWeights expert(const std::string& prefix);
  [[nodiscard]] View<const std::int32_t, 2> hash_table(const TensorInfo& tensor);
  void check_scales() const;

  ModelConfig config_;
  Checkpoint checkpoint_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int32_t>> tables_;
  std::deque<std::vector<Bf16Bits>> realigned_;
  View<const Bf16Bits, 2> embedding_;
  WeightMatrix head_;
  std::span<const float> norm_;
  HcWeights hc_head_;
  std::vector<BlockWeights> blocks_;
  std::vector<MtpWeights> mtp_;
  std::int64_t mapped_bytes_ = 0;
  std::int64_t owned_bytes_ = 0;
};

}  // namespace baleen
