/// Where a model's tensors lie in `Parameters`: of weights (T is const) and, with the same names, of their
/// gradients.
#pragma once

#include <type_traits>
#include <vector>

#include "trainer/graph/parameters.h"

namespace baleen::graph {

template <class T>
struct MixingWeights {
  T* fn = nullptr;     ///< [(2 + n) n, n d]; of hc_head [n, n d]
  T* base = nullptr;   ///< [(2 + n) n]; of hc_head [n]
  T* scale = nullptr;  ///< [3]; of hc_head [1]
};

/// A mixing and the norm of what it reads: before attention, before the experts, and before the head.
template <class T>
struct SiteWeights {
  MixingWeights<T> mixing;
  T* norm = nullptr;  ///< [d]
};

template <class T>
struct CompressorWeights {
  T* ape = nullptr;    ///< [r, columns]
  T* wkv = nullptr;    ///< [columns, d]
  T* wgate = nullptr;  ///< [columns, d]
  T* norm = nullptr;   ///< [h]
};

template <class T>
struct SwigluWeights {
  T* w1 = nullptr;  ///< [I, d] gate
  T* w2 = nullptr;  ///< [d, I]
  T* w3 = nullptr;  ///< [I, d] up
};

template <class T>
struct BlockWeights {
  SiteWeights<T> attn_site, ffn_site;
  T* sink = nullptr;     ///< [H]
  T* wq_a = nullptr;     ///< [R_q, d]
  T* q_norm = nullptr;   ///< [R_q]
  T* wq_b = nullptr;     ///< [H c, R_q]
  T* wkv = nullptr;      ///< [c, d]
  T* kv_norm = nullptr;  ///< [c]
  T* wo_a = nullptr;     ///< [G R_o, H c / G]
  T* wo_b = nullptr;     ///< [d, G R_o]
  CompressorWeights<T> compressor;
  T* index_wq_b = nullptr;     ///< [H_I c_I, R_q]
  T* index_weights = nullptr;  ///< [H_I, d]
  CompressorWeights<T> index_compressor;
  T* gate = nullptr;       ///< [E, d]
  T* gate_bias = nullptr;  ///< [E]; null in hash layers
  SwigluWeights<T> shared;
  std::vector<SwigluWeights<T>> experts;
};

/// What the MTP block has beside its block: projections before it, the head's mixing and norm after it.
template <class T>
struct MtpWeights {
  T* e_proj = nullptr;  ///< [d, d]
  T* h_proj = nullptr;  ///< [d, d]
  T* enorm = nullptr;
  T* hnorm = nullptr;
  SiteWeights<T> output;
};

/// `Parameters<T>`, const where T is.
template <class T>
using ParametersOf =
    std::conditional_t<std::is_const_v<T>, const Parameters<std::remove_const_t<T>>, Parameters<T>>;

template <class T>
struct ModelWeightPlaces {
  /// Of a model with plain residuals the mixings are null. Without `parameters` tensors have addresses that
  /// may not be read or written.
  ModelWeightPlaces(const ModelConfig& config, ParametersOf<T>* parameters, bool plain_residual = false);

  T* embed = nullptr;  ///< [V, d]
  T* head = nullptr;   ///< [V, d]
  std::vector<BlockWeights<T>> blocks;
  SiteWeights<T> output;
  MtpWeights<T> mtp;  ///< of the MTP block, blocks.back(), where the model has one
};

}  // namespace baleen::graph
