/// A model's weights as views, bound to the places where the forward pass wants them. Who owns them, and in
/// which memory they lie, is not said here: `ModelWeights` has them in a checkpoint's map, `DeviceWeights` on
/// a device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "numeric/bf16.h"
#include "ops/dispatch/expert_map.h"
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
  /// All experts, or on a rank among others those of its slots by local id.
  std::vector<ExpertWeights> routed;
  /// Where all ranks have this layer's experts; null: linearly, one copy of each.
  std::shared_ptr<const ExpertMap> map;
  std::span<const std::int32_t> map_table;  ///< its `table()`; empty where there is no map
  ExpertPlaces places;                      ///< where those lie that are not one behind the other
  ExpertWeights shared;
  bool has_shared = false;
};

/// "layers.N.*", or the same of a draft head's block
struct BlockWeights {
  HcWeights hc_attn;
  HcWeights hc_ffn;
  std::span<const float> attn_norm;
  std::span<const float> ffn_norm;
  AttentionWeights attention;
  MoeWeights moe;
};

/// What a block of a draft head has beside what every block has, by the names of its rows in the table
/// without the block's prefix: "e_proj", "hnorm". Which there are, the head knows.
struct DraftBlockWeights {
  std::map<std::string_view, WeightMatrix> matrices;
  std::map<std::string_view, std::span<const float>> vectors;
  std::map<std::string_view, HcWeights> mixings;
};

struct TensorSpec;

/// All of a model, or one rank's share of it.
struct WeightTree {
  /// What it has, in the order of the table (model/tensor_table.h); of a block's routed experts, which are
  /// all alike, the first stands for all. Null only for a tree without anything.
  std::shared_ptr<const std::vector<TensorSpec>> table;

  View<const Bf16Bits, 2> embedding;  ///< [V, d]
  WeightMatrix head;                  ///< [V, d]
  std::span<const float> norm;        ///< [d]
  HcWeights hc_head;
  std::vector<BlockWeights> blocks;       ///< main layers, then those of the draft head
  std::vector<DraftBlockWeights> drafts;  ///< of each block behind the main layers

  [[nodiscard]] const BlockWeights& block(std::int64_t block) const {
    return blocks[static_cast<std::size_t>(block)];
  }
};

}  // namespace baleen
