/// Where a model's tensors are: a tree over what its leaves are. Views are for the forward pass; who owns the
/// arrays, and in which memory they lie, is not said here: `ModelWeights` has them in a checkpoint's map,
/// `DeviceWeights` on a device. By rows the trainer finds weights, gradients and states of optimisers, which
/// lie in the table's order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/made_bytes.h"
#include "numeric/bf16.h"
#include "ops/dispatch/expert_map.h"
#include "ops/experts/experts.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/matmul/weight_matrix.h"
#include "tensor/view.h"

namespace baleen {

struct TensorSpec;

/// Arrays as the forward pass reads them.
struct ViewLeaves {
  using Matrix = WeightMatrix;
  using Vector = std::span<const float>;
  using Table = View<const float, 2>;
  using Bf16Table = View<const Bf16Bits, 2>;
  using IdTable = View<const std::int32_t, 2>;
  using Mixing = HcWeights;
  using Expert = ExpertWeights;
  /// Where a layer's experts are.
  struct Placement {
    /// Where all ranks have them; null: linearly, one copy of each.
    std::shared_ptr<const ExpertMap> map;
    std::span<const std::int32_t> map_table;  ///< its `table()`; empty where there is no map
    ExpertPlaces places;                      ///< where those lie that are not one behind the other
    bool has_shared = false;
  };
};

/// One of a table of tensors.
struct TensorRow {
  std::int32_t index = -1;  ///< -1: the model has no such tensor

  [[nodiscard]] bool exists() const { return index >= 0; }
};

/// Which tensors of a table they are.
struct RowLeaves {
  using Matrix = TensorRow;
  using Vector = TensorRow;
  using Table = TensorRow;
  using Bf16Table = TensorRow;
  using IdTable = TensorRow;
  struct Mixing {
    TensorRow fn, base, scale;
  };
  struct Expert {
    TensorRow w1, w2, w3;
  };
  struct Placement {};
};

/// "compressor.*": ratio r, entries of width h, w = 2 for r = 4 and 1 otherwise.
template <class Leaves>
struct CompressorWeightsOf {
  typename Leaves::Table ape;     ///< [r, w h]; latents have none
  typename Leaves::Matrix wkv;    ///< [w h, d] BF16
  typename Leaves::Matrix wgate;  ///< [w h, d] BF16; none with r = 1
  typename Leaves::Vector norm;   ///< [h]
};
using CompressorWeights = CompressorWeightsOf<ViewLeaves>;

template <class Leaves>
struct IndexerWeightsOf {
  typename Leaves::Matrix wq_b;          ///< [H_I c_I, R_q]
  typename Leaves::Matrix weights_proj;  ///< [H_I, d] BF16
  CompressorWeightsOf<Leaves> compressor;
  // Where keys are made of latents.
  typename Leaves::Matrix wk;      ///< [c_I, c] BF16
  typename Leaves::Vector k_norm;  ///< [c_I]
};

/// "attn.*"
template <class Leaves>
struct AttentionWeightsOf {
  typename Leaves::Vector sink;            ///< [H]
  typename Leaves::Matrix wq_a;            ///< [R_q, d]
  typename Leaves::Vector q_norm;          ///< [R_q]
  typename Leaves::Matrix wq_b;            ///< [H c, R_q]
  typename Leaves::Matrix wkv;             ///< [c, d]
  typename Leaves::Vector kv_norm;         ///< [c]
  typename Leaves::Matrix wo_a;            ///< [G R_o, H c / G]
  typename Leaves::Matrix wo_b;            ///< [d, G R_o]
  CompressorWeightsOf<Leaves> compressor;  ///< layers that make entries of a projection have one
  IndexerWeightsOf<Leaves> indexer;        ///< layers that select, or make keys, have one
};
using AttentionWeights = AttentionWeightsOf<ViewLeaves>;

/// "ffn.*"
template <class Leaves>
struct MoeWeightsOf : Leaves::Placement {
  typename Leaves::Matrix gate;         ///< [E, d] BF16
  typename Leaves::Vector bias;         ///< [E], empty in hash layers
  typename Leaves::IdTable hash_table;  ///< [V, k], empty elsewhere
  /// All experts, or on a rank among others those of its slots by local id.
  std::vector<typename Leaves::Expert> routed;
  typename Leaves::Expert shared;
};
using MoeWeights = MoeWeightsOf<ViewLeaves>;

/// "engram.*", of layers that read a table of n-grams; the table is no weight of the tree (engram/).
template <class Leaves>
struct EngramWeightsOf {
  typename Leaves::Matrix wkv;          ///< [(n + 1) d, values of the rows that a token reads]
  typename Leaves::Bf16Table q_weight;  ///< [n, d]
  typename Leaves::Bf16Table k_weight;  ///< [n, d]
};
using EngramWeights = EngramWeightsOf<ViewLeaves>;

/// "layers.N.*", or the same of a draft head's block
template <class Leaves>
struct BlockWeightsOf {
  EngramWeightsOf<Leaves> engram;
  typename Leaves::Mixing hc_attn;
  typename Leaves::Mixing hc_ffn;
  typename Leaves::Vector attn_norm;
  typename Leaves::Vector ffn_norm;
  AttentionWeightsOf<Leaves> attention;
  MoeWeightsOf<Leaves> moe;
};
using BlockWeights = BlockWeightsOf<ViewLeaves>;

/// What a block of a draft head has beside what every block has, by the names of its rows in the table
/// without the block's prefix: "e_proj", "hnorm". Which there are, the head knows.
template <class Leaves>
struct DraftBlockWeightsOf {
  std::map<std::string_view, typename Leaves::Matrix> matrices;
  std::map<std::string_view, typename Leaves::Vector> vectors;
  std::map<std::string_view, typename Leaves::Mixing> mixings;
};
using DraftBlockWeights = DraftBlockWeightsOf<ViewLeaves>;

template <class Leaves>
struct WeightTreeOf {
  typename Leaves::Bf16Table embedding;  ///< [V, d]
  typename Leaves::Matrix head;          ///< [V, d]
  typename Leaves::Vector norm;          ///< [d]
  typename Leaves::Mixing hc_head;
  std::vector<BlockWeightsOf<Leaves>> blocks;       ///< main layers, then those of the draft head
  std::vector<DraftBlockWeightsOf<Leaves>> drafts;  ///< one for each block behind the main layers

  [[nodiscard]] const BlockWeightsOf<Leaves>& block(std::int64_t block) const {
    return blocks[static_cast<std::size_t>(block)];
  }
};
using RowTree = WeightTreeOf<RowLeaves>;

/// All of a model, or one rank's share of it.
struct WeightTree : WeightTreeOf<ViewLeaves> {
  /// What it has, in the order of the table (model/tensor_table.h); of a block's routed experts, which are
  /// all alike, the first stands for all. Null only for a tree without anything.
  std::shared_ptr<const std::vector<TensorSpec>> table;
  /// Makes the bytes at some of its addresses, which have to be acquired before they are read; null: all
  /// bytes are there.
  std::shared_ptr<const MadeBytes> made;
};

}  // namespace baleen
