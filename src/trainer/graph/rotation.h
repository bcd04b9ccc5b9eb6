/// Rotation of queries, keys and entries by their positions in the document, of one layer's attention.
#pragma once

#include "ops/rope/rope.h"
#include "trainer/graph/graph_context.h"

namespace baleen::graph {

/// x [N, heads, width], each row at its token's position, rounded as `precision` says.
template <class T>
void rotate(const GraphContext<T>& context, const LayerAttention& shape, std::int64_t heads,
            std::int64_t width, bool inverse, Precision precision, T* x) {
  const RopeTable<T>& rope = context.ropes[static_cast<int>(shape.rope)];
  const std::int64_t pairs = shape.rope_dim / 2, rows = context.tokens();
  context.template run<ops::Rope>({.x = {x, {rows, heads, width}},
                                   .cosine = {rope.cosine.data(), {rows, pairs}},
                                   .sine = {rope.sine.data(), {rows, pairs}},
                                   .inverse = inverse,
                                   .precision = precision});
}

/// In the forward: what comes out is a result. In the backward gradients are rotated by the opposite angle.
template <class T>
void rotate_result(const GraphContext<T>& context, const LayerAttention& shape, std::int64_t heads,
                   std::int64_t width, bool inverse, T* x) {
  rotate(context, shape, heads, width, inverse, context.precision(), x);
}
template <class T>
void rotate_gradient(const GraphContext<T>& context, const LayerAttention& shape, std::int64_t heads,
                     std::int64_t width, bool inverse, T* dx) {
  if (context.pool.compute()) rotate(context, shape, heads, width, !inverse, Precision::kExact, dx);
}

/// The angles of all documents' entries, each at the position of its first token.
template <class T>
struct EntryAngles {
  Values<T> cosine, sine;  ///< [M, rotary / 2]

  EntryAngles(const GraphContext<T>& context, const LayerAttention& shape,
              const std::vector<std::int64_t>& entry_begin) {
    const RopeTable<T>& rope = context.ropes[static_cast<int>(shape.rope)];
    const std::int64_t pairs = shape.rope_dim / 2;
    T* to_cosine = resized(cosine, entry_begin.back() * pairs);
    T* to_sine = resized(sine, entry_begin.back() * pairs);
    context.pool.parallel_for(context.documents(), [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(i);
      for (std::int64_t entry = entry_begin[at]; entry < entry_begin[at + 1]; ++entry) {
        const std::int64_t token = context.document(i).begin + (entry - entry_begin[at]) * shape.ratio;
        std::copy_n(rope.cosine.data() + token * pairs, pairs, to_cosine + entry * pairs);
        std::copy_n(rope.sine.data() + token * pairs, pairs, to_sine + entry * pairs);
      }
    });
  }

  /// entries [M, width]
  void rotate(const GraphContext<T>& context, std::int64_t count, std::int64_t width, bool inverse,
              Precision precision, T* entries) const {
    const std::int64_t pairs = count == 0 ? 0 : static_cast<std::int64_t>(cosine.size()) / count;
    context.template run<ops::Rope>({.x = {entries, {count, 1, width}},
                                     .cosine = {cosine.data(), {count, pairs}},
                                     .sine = {sine.data(), {count, pairs}},
                                     .inverse = inverse,
                                     .precision = precision});
  }
};

}  // namespace baleen::graph
