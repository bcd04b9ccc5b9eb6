/// The activations of one block that its backward needs, each a named value. They live from the block's
/// forward to its backward; with recomputation all blocks share one object, whose values live for one block
/// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tensor/recycled_memory.h"
#include "trainer/graph/recorded_memory.h"

namespace baleen::graph {

/// Elements that are made without a value are left as the memory was: they are about to be computed. Large
/// arrays take recycled memory; those of a pass that is written down take none.
template <class T>
struct Uninitialised : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Uninitialised<U>;
  };
  using std::allocator<T>::allocator;
  [[nodiscard]] T* allocate(std::size_t count) {
    if (RecordedMemory* memory = RecordedMemory::current(); memory != nullptr)
      return static_cast<T*>(memory->take(static_cast<std::int64_t>(count * sizeof(T))));
    return is_large(count) ? static_cast<T*>(take_recycled(count * sizeof(T)))
                           : std::allocator<T>::allocate(count);
  }
  void deallocate(T* place, std::size_t count) {
    if (RecordedMemory* memory = RecordedMemory::current(); memory != nullptr)
      return memory->give_back(static_cast<std::int64_t>(count * sizeof(T)));
    if (is_large(count)) return give_back_recycled(place);
    std::allocator<T>::deallocate(place, count);
  }
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }

 private:
  static bool is_large(std::size_t count) { return count * sizeof(T) >= std::size_t{1} << 16; }
};

template <class T>
using Values = std::vector<T, Uninitialised<T>>;

/// The residual streams between two blocks.
template <class T>
struct StreamValues {
  Values<T> x;    ///< [N, n, d]
  Values<T> pre;  ///< [N, n] where mixing lags: what the next half-block sums them up by; otherwise empty
};

/// Of one mixing with its norm. The head's has no post and no comb, and where mixing lags the norm alone.
template <class T>
struct SiteActivations {
  Values<T> raw;     ///< [N, mixes]
  Values<T> pre;     ///< [N, n], where mixing lags: for the next half-block
  Values<T> post;    ///< [N, n]
  Values<T> comb;    ///< [N, n, n]
  Values<T> u;       ///< [N, d]
  Values<T> normed;  ///< [N, d]
};

/// Of one compressor: M entries of all documents, one document after the other.
template <class T>
struct CompressorActivations {
  Values<T> k;      ///< [N, columns]
  Values<T> g;      ///< [N, columns]
  Values<T> e;      ///< [M, h] pooled
  Values<T> entry;  ///< [M, h] after norm and rotation
};

/// Of what makes latents: M of all documents, one document after the other.
template <class T>
struct LatentActivations {
  Values<T> k;          ///< [N, h]
  Values<T> g;          ///< [N, h], of latents of two positions
  Values<T> e;          ///< [M, h] pooled, of latents of two positions
  Values<T> e_rounded;  ///< [M, h] as the norm reads them, where that is not e
};

/// What a layer makes for itself and for later ones, which read it until the pass ends.
template <class T>
struct SharedActivations {
  Values<T> latent;                 ///< [M, h] normed, as index keys are made of it
  Values<T> entry;                  ///< [M, h] rotated
  Values<T> key_raw, key;           ///< [M, c_I] index keys before their norm, and rotated
  Values<T> dentry;                 ///< gradients of entry, summed over its readers
  Values<T> dkey;                   ///< its own share of the gradients of the keys that it scores entries by
  Values<std::uint8_t> visible;     ///< its selection, as AttentionActivations has it
  Values<std::uint8_t> candidates;  ///< likewise, where it chooses candidates
};
/// One for each block.
template <class T>
using SharedOfBlocks = std::vector<SharedActivations<T>>;

template <class T>
struct AttentionActivations {
  Values<T> x_rounded;        ///< [N, d] what wq_a and wkv multiply, where it is not x
  Values<T> q_latent;         ///< [N, R_q] before its norm
  Values<T> q_latent_normed;  ///< [N, R_q]
  Values<T> q_raw;            ///< [N, H c] before the norm of heads
  Values<T> q;                ///< [N, H c] after norm and rotation
  Values<T> kv_raw;           ///< [N, c]
  Values<T> kv;               ///< [N, c]
  CompressorActivations<T> compressor, index_compressor;
  LatentActivations<T> latents;
  Values<T> index_q;                        ///< [N, H_I c_I] rotated
  Values<T> index_weights;                  ///< [N, H_I] before the constant
  Values<T> index_score;                    ///< as `visible`, before the constant
  std::vector<std::int64_t> entry_begin;    ///< [documents + 1]
  std::vector<std::int64_t> visible_begin;  ///< [documents + 1]
  Values<std::uint8_t> visible;             ///< a [tokens, entries] matrix a document
  Values<T> entry_share;                    ///< as `visible`: attention to entries, summed over heads
  double indexer_loss = 0;                  ///< sum over queries, where the pass has it
  Values<T> o;                              ///< [N, H c] before the inverse rotation
  Values<T> lse;                            ///< [N, H]
  Values<T> rotated;                        ///< [N, H c] after it
  Values<T> grouped;                        ///< [N, G R_o]
};

template <class T>
struct ExpertActivations {
  Values<T> logits;                        ///< [N, E]
  double balance_loss = 0;                 ///< sum over documents, where the pass has it
  Values<std::int32_t> ids;                ///< [N, k], ascending in a row
  Values<T> weights;                       ///< [N, k]
  std::vector<std::int64_t> slot_begin;    ///< [E + 1]: slots of an expert, in the order of tokens
  Values<std::int64_t> slot_token;         ///< [N k]
  Values<std::int64_t> slot_of;            ///< [N, k]
  Values<T> slot_weight;                   ///< [N k]
  Values<T> x_rounded;                     ///< [N, d] what the shared expert multiplies, where it is not x
  Values<T> x;                             ///< [N k, d] gathered
  Values<T> g, v, a;                       ///< [N k, I]
  Values<T> y;                             ///< [N k, d]
  Values<T> shared_g, shared_v, shared_a;  ///< [N, I]
};

/// Of a memory of n-grams before a block.
template <class T>
struct EngramActivations {
  Values<T> z;          ///< [N, values of the rows that a token reads]
  Values<T> projected;  ///< [N, (n + 1) d] keys and a value
  Values<T> streams;    ///< [N, n, d] with what it added
};

template <class T>
struct BlockActivations {
  EngramActivations<T> engram;
  SiteActivations<T> attn_site, ffn_site;
  AttentionActivations<T> attention;
  ExpertActivations<T> experts;
  Values<T> attn_out;  ///< [N, d]
  Values<T> middle;    ///< [N, n, d] streams between the half-blocks
  Values<T> ffn_out;   ///< [N, d]
};

}  // namespace baleen::graph
